#include "workspace.hpp"

#include <algorithm>

namespace halfline {
namespace {

// Most memory for the parts of attention: 16 MiB. Rows beyond it are computed by tiles.
constexpr std::int64_t kMaxPartFloats = 4 << 20;

Memory float_rows(int rows, int stride) {
  return Memory(sizeof(float) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride));
}

AttentionShape attention_shape(const ModelShape& shape, KvFormat kv_format, int num_workers) {
  return {shape.group_size(), shape.num_kv_heads, num_workers, kMaxPartFloats / part_floats(shape.head_dim),
          kv_format != KvFormat::f16};
}

}  // namespace

std::size_t quant_rows_bytes(int rows, int cols) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols / kBlockValues) * (kBlockValues + 16);
}

QuantRows quant_rows(const Memory& memory, int rows, int cols) {
  const std::int64_t blocks = std::int64_t{rows} * (cols / kBlockValues);
  auto* quants = memory.as<std::int8_t>();
  auto* scales = reinterpret_cast<float*>(quants + blocks * kBlockValues);
  return {quants, scales, scales + blocks, reinterpret_cast<std::int32_t*>(scales + 2 * blocks)};
}

Workspace::Workspace(const ModelShape& model, KvFormat kv_format, int num_blocks, int num_threads, Isa isa)
    : shape(model),
      kernels(kernels_of(isa)),
      team(num_threads),
      arena(kv_format, model.num_layers, num_blocks, model.num_kv_heads, model.head_dim),
      rotations(model),
      plan(attention_shape(model, kv_format, num_threads)),
      x_stride(round_up(model.hidden_size, kBlockValues)),
      q_stride(round_up(model.q_size(), kBlockValues)),
      kv_stride(round_up(model.kv_size(), kBlockValues)),
      ffn_stride(round_up(model.ffn_size, kBlockValues)),
      normed(float_rows(kSlabRows, x_stride)),
      keys(float_rows(kSlabRows, kv_stride)),
      values(float_rows(kSlabRows, kv_stride)),
      attended(float_rows(kSlabRows, q_stride)),
      gate(float_rows(kSlabRows, ffn_stride)),
      up(float_rows(kSlabRows, ffn_stride)) {
  // Each row may have a second term.
  const int widest = std::max({x_stride, q_stride, ffn_stride});
  quants = Memory(quant_rows_bytes(2 * kSlabRows, widest));
  inner_quants = Memory(quant_rows_bytes(2 * kSlabRows, ffn_stride));
  for (int worker = 0; worker < num_threads; ++worker) {
    rooms.push_back({float_rows(1, widest), Memory(quant_rows_bytes(2, widest)),
                     float_rows(model.group_size(), model.head_dim), float_rows(1, kInnerFloats),
                     Memory(static_cast<std::size_t>(linear_scratch_bytes(widest))),
                     Memory(sizeof(float) * static_cast<std::size_t>(
                                                attention_scratch_floats(model.group_size(), model.head_dim))),
                     {}});
  }
}

void Workspace::begin(const BatchView& batch) {
  plan.make(batch);
  rotations.grow(plan.num_places());
  kv_writes.plan(batch.sequences, batch.num_rows);
  for (WorkerRoom& room : rooms) room.ahead = {};   // it pointed into the plan before
  const auto grow = [](Memory& memory, std::int64_t floats) {
    const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(floats);
    if (bytes > memory.bytes()) memory = Memory(bytes);
  };
  grow(x, std::int64_t{batch.num_rows} * x_stride);
  grow(q, std::int64_t{batch.num_rows} * q_stride);
  grow(peaks, std::int64_t{std::min(batch.num_choice_rows, kSlabRows)} * num_peaks(shape.vocab_size));
  grow(parts, plan.num_records() * shape.num_heads * part_floats(shape.head_dim));
}

float* Workspace::part(std::int64_t record, int head) const {
  return parts.as<float>() + (record * shape.num_heads + head) * part_floats(shape.head_dim);
}

}  // namespace halfline
