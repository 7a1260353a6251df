// The Python face of the CPU executor. Shapes and indices were checked by executor.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "engine.hpp"
#include "isa.hpp"
#include "limits.hpp"
#include "pack.hpp"

namespace nb = nanobind;
using namespace halfline;

namespace {

using Int32s = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Int32Table = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using WritableInt32s = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using WritableInts = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Doubles = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ByteTable = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using WritableBytes = nb::ndarray<std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Isa isa : usable_isas()) names.emplace_back(kernels_of(isa).name);
  return names;
}

bool run(Engine& engine, Int32s token_ids, Int32s row_starts, Int32s first_places, Int32Table block_tables,
         Int32Table masks, Int32s logit_rows, Int32s hidden_rows, Int32s choice_rows, Floats logits, Floats hidden,
         WritableInt32s top_ids, Floats top_logits, Doubles log_totals, WritableInts choices) {
  BatchView batch{token_ids.data(), static_cast<int>(token_ids.size()), {}, logit_rows.data(),
                  static_cast<int>(logit_rows.size()), hidden_rows.data(), static_cast<int>(hidden_rows.size()),
                  choice_rows.data(), static_cast<int>(choice_rows.size())};
  for (std::size_t i = 0; i < first_places.size(); ++i) {
    const std::int32_t* mask = masks.data() + 3 * i;
    batch.sequences.push_back({row_starts.data()[i], row_starts.data()[i + 1] - row_starts.data()[i],
                               first_places.data()[i], block_tables.data() + i * block_tables.shape(1), mask[0],
                               mask[1], mask[2]});
  }
  nb::gil_scoped_release release;
  const TopLogits top{static_cast<int>(top_ids.shape(1)), top_ids.data(), top_logits.data(), log_totals.data()};
  return engine.run(batch, {logits.data(), hidden.data(), top, choices.data()});
}

int decode(Engine& engine, std::int32_t token_id, std::int32_t place, Int32s block_table, Int32s mask, Int32s end_ids,
           WritableInts ids) {
  const GreedyRun run{token_id,
                      {0, 1, place, block_table.data(), mask.data()[0], mask.data()[1], mask.data()[2]},
                      {end_ids.data(), end_ids.size()},
                      static_cast<int>(ids.size())};
  nb::gil_scoped_release release;
  return engine.decode(run, ids.data());
}

// One linear on its own, without bias: what tests hold against float64.
void linear_alone(const std::string& isa, int format, int cols, ByteTable file, Floats inputs, Int32s refined,
                  Floats outputs) {
  PackedMatrix matrix = packed_shape(static_cast<Format>(format), static_cast<int>(file.shape(0)), cols);
  const Memory packed(static_cast<std::size_t>(matrix.panels) * matrix.panel_bytes);
  pack_panels(matrix, file.data(), 0, matrix.panels, packed.as<std::uint8_t>());
  matrix.data = packed.as<std::uint8_t>();

  const Kernels& kernels = kernels_of(isa_named(isa));
  const int rows = static_cast<int>(inputs.shape(0));
  const int num_refined = static_cast<int>(refined.size()), terms = rows + num_refined;
  const Memory quants(quant_rows_bytes(terms, cols));
  const QuantRows quant = quant_rows(quants, terms, cols);
  if (matrix.quantised()) {
    const auto input = [&](int row) { return inputs.data() + std::int64_t{row} * cols; };
    for (int row = 0; row < rows;) {
      const int count = std::min(rows - row, kernels.tile_rows - row % kernels.tile_rows);
      kernels.quantise(input(row), cols, count, cols, row, terms, quant);
      row += count;
    }
    for (int i = 0; i < num_refined; ++i) {
      kernels.quantise_rest(input(refined.data()[i]), cols, rows + i, terms, quant);
    }
  }
  const Memory scratch(static_cast<std::size_t>(linear_scratch_bytes(cols)));
  kernels.linear({&matrix, nullptr, rows, inputs.data(), cols, quant, outputs.data(), matrix.rows, false, 1.0f,
                  refined.data(), num_refined},
                 0, matrix.panels, scratch.as<std::uint8_t>());
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "CPU executor";
  // Whoever ends at once (a second Ctrl-C, a failure at start) leaves threads that still hold an engine. Its memory goes
  // with the process; a page of notes about each function of this module would be all that is read of the end.
  nb::set_leak_warnings(false);
  m.def("available_isas", &available_isas);
  m.def("linear_alone", &linear_alone);

  // Operations per second of one probe of limits.hpp; the interpreter's lock is free meanwhile.
  const auto def_ops = [&m](const char* name, double (*probe)(Isa, int, double)) {
    m.def(name, [probe](const std::string& isa, int threads, double seconds) {
      nb::gil_scoped_release release;
      return probe(isa_named(isa), threads, seconds);
    });
  };
  m.def("read_bytes_per_s", &read_bytes_per_s, nb::call_guard<nb::gil_scoped_release>());
  def_ops("int8_ops_per_s", &int8_ops_per_s);
  def_ops("int8_block_ops_per_s", &int8_block_ops_per_s);
  def_ops("fma_ops_per_s", &fma_ops_per_s);

  nb::class_<ModelShape>(m, "ModelShape")
      .def(nb::init<>())
      .def_rw("num_layers", &ModelShape::num_layers)
      .def_rw("hidden_size", &ModelShape::hidden_size)
      .def_rw("num_heads", &ModelShape::num_heads)
      .def_rw("num_kv_heads", &ModelShape::num_kv_heads)
      .def_rw("head_dim", &ModelShape::head_dim)
      .def_rw("ffn_size", &ModelShape::ffn_size)
      .def_rw("vocab_size", &ModelShape::vocab_size)
      .def_rw("max_context", &ModelShape::max_context)
      .def_rw("layer_norm", &ModelShape::layer_norm)
      .def_rw("norm_eps", &ModelShape::norm_eps)
      .def_rw("gated", &ModelShape::gated)
      .def_rw("attention_scale", &ModelShape::attention_scale)
      .def_rw("embedding_scale", &ModelShape::embedding_scale)
      .def_rw("residual_scale", &ModelShape::residual_scale)
      .def_rw("logit_scale", &ModelShape::logit_scale)
      .def_rw("inverse_frequencies", &ModelShape::inverse_frequencies)
      .def_rw("layer_windows", &ModelShape::layer_windows);

  nb::class_<Engine>(m, "Engine")
      .def("__init__",
           [](Engine* self, const ModelShape& shape, const std::string& kv_format, int num_blocks, int num_threads,
              const std::string& isa) {
             new (self) Engine(shape, kv_format == "int8" ? KvFormat::int8 : KvFormat::f16, num_blocks, num_threads,
                               isa_named(isa));
           })
      .def("add_matrix",
           [](Engine& engine, const std::string& name, int format, int cols, ByteTable rows, bool mapped) {
             nb::gil_scoped_release release;
             engine.add_matrix(name, static_cast<Format>(format), static_cast<int>(rows.shape(0)), cols, rows.data());
             if (mapped) drop_mapped_pages(rows.data(), rows.size());
           })
      .def("add_vector",
           [](Engine& engine, const std::string& name,
              nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu> values) {
             engine.add_vector(name, values.data(), static_cast<int>(values.size()));
           })
      .def("finish_loading", &Engine::finish_loading)
      .def("run", &run)
      .def("decode", &decode)
      .def("set_stop", [](Engine& engine, bool stop) { engine.stop_flag().store(stop); })
      .def_prop_ro("isa", &Engine::isa)
      .def_prop_ro("weight_bytes", &Engine::weight_bytes)
      .def_prop_ro("block_bytes", &Engine::block_bytes)
      .def("copy_blocks",
           [](Engine& engine, Int32s sources, Int32s targets) {
             for (std::size_t i = 0; i < sources.size(); ++i) engine.copy_block(sources.data()[i], targets.data()[i]);
           })
      .def("export_blocks",
           [](const Engine& engine, Int32s blocks, WritableBytes bytes) {
             for (std::size_t i = 0; i < blocks.size(); ++i) {
               engine.export_block(blocks.data()[i], bytes.data() + i * bytes.shape(1));
             }
           })
      .def("import_blocks", [](Engine& engine, Int32s blocks, ByteTable bytes) {
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          engine.import_block(blocks.data()[i], bytes.data() + i * bytes.shape(1));
        }
      });
}
