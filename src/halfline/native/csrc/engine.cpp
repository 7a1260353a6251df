#include "engine.hpp"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "pack.hpp"

namespace halfline {
namespace {

// Rows that go through a layer's matrices together. Bounds the memory of a long batch and keeps its activations in
// the second-level cache.
constexpr int kSlabRows = 512;

// Rows at the first places of a sequence are refined in every layer. Everything later looks at them (attention sinks),
// and their outlying values are what int8 hurts most: on real code with the embedded model the mean divergence from
// exact arithmetic was 6.1e-3 nats with none refined, 3.2e-3 with 2, 2.7e-3 with 16. Whether a row is refined depends
// on its place alone, so it is the same in every batch.
constexpr int kRefinedPlaces = 16;

// Blocks of columns between the two matrices of a feed-forward that are computed together, where rows are few.
constexpr int kInnerBlocks = 4;

// Most memory for the parts of attention: 16 MiB. Rows beyond it are computed by tiles.
constexpr std::int64_t kMaxPartFloats = 4 << 20;

// Most weights that a worker takes at once: some 10 microseconds of reading, as the others may have to wait that long.
constexpr std::size_t kMostPortionBytes = 128 << 10;

int round_up(int value, int step) { return (value + step - 1) / step * step; }

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

// The rows that go through a layer together. `refined` are those of them that have a second term, in order; like all
// rows inside a slab they are counted from its first.
struct Engine::Slab {
  int first;   // in the batch
  int count;
  const std::int32_t* refined;
  int num_refined;
  const AttentionPlan* attention;   // null where nothing is attended to

  int terms() const { return count + num_refined; }
};

// What the next linear reads: rows of floats, and the same quantised.
struct Engine::Prepared {
  float* rows;   // [count, stride]
  int stride;
  QuantRows quant;

  float* row(int number) const { return rows + std::int64_t{number} * stride; }
};

// x and q exist for every row of a batch, since attention starts when all KV of a layer is written. The others serve
// one slab of rows after the other. All are float [rows, stride] except the quantised copy of the current input.
struct Engine::Buffers {
  int rows = 0;
  int stride_x, stride_q, stride_kv, stride_ffn;
  Memory x, q;
  Memory normed, keys, values, attended, gate, up;   // slabs
  Memory quants;                                     // QuantRows of one slab
  std::vector<Memory> lone_row, lone_quants;         // one each per worker, for slabs of one row
  Memory inner_quants;                               // QuantRows of one slab, what the down projection reads
  std::vector<Memory> inner;                         // per worker: a few blocks of columns of gate and up
  std::vector<Memory> linear_scratch, attention_scratch;   // one each per worker
  std::vector<std::int32_t> places;                  // of each row
  std::vector<std::int32_t> refined;                 // of all slabs
  std::vector<Slab> slabs;
  std::vector<AttentionPlan> attention;              // of each slab
  Memory parts;                                      // of attention: [records][heads][part_floats]
  std::vector<std::int32_t> every;                   // 0, 1, 2 ...: a slab all of whose rows are refined
};

Engine::Engine(const ModelShape& shape, KvFormat kv_format, int num_blocks, int num_threads, Isa isa)
    : shape_(shape),
      kernels_(kernels_of(isa)),
      team_(num_threads),
      arena_(kv_format, shape.num_layers, num_blocks, shape.num_kv_heads, shape.head_dim),
      buffers_(std::make_shared<Buffers>()) {
  Buffers& b = *buffers_;
  b.stride_x = round_up(shape_.hidden_size, kBlockValues);
  b.stride_q = round_up(shape_.num_heads * shape_.head_dim, kBlockValues);
  b.stride_kv = round_up(shape_.num_kv_heads * shape_.head_dim, kBlockValues);
  b.stride_ffn = round_up(shape_.ffn_size, kBlockValues);
  const auto slab = [](int stride) { return Memory(sizeof(float) * kSlabRows * static_cast<std::size_t>(stride)); };
  b.normed = slab(b.stride_x);
  b.keys = slab(b.stride_kv);
  b.values = slab(b.stride_kv);
  b.attended = slab(b.stride_q);
  b.gate = slab(b.stride_ffn);
  b.up = slab(b.stride_ffn);
  const int widest = std::max({b.stride_x, b.stride_q, b.stride_ffn});
  b.quants = Memory(quant_rows_bytes(2 * kSlabRows, widest));
  b.inner_quants = Memory(quant_rows_bytes(2 * kSlabRows, b.stride_ffn));
  for (int row = 0; row < kSlabRows; ++row) b.every.push_back(row);
  const int group = shape_.num_heads / shape_.num_kv_heads;
  for (int worker = 0; worker < num_threads; ++worker) {
    b.lone_row.emplace_back(sizeof(float) * static_cast<std::size_t>(widest));
    b.inner.emplace_back(sizeof(float) * 2 * kSlabRows * kBlockValues);
    b.lone_quants.emplace_back(quant_rows_bytes(2, widest));
    b.linear_scratch.emplace_back(static_cast<std::size_t>(linear_scratch_bytes(widest)));
    b.attention_scratch.emplace_back(sizeof(float) *
                                     static_cast<std::size_t>(attention_scratch_floats(group, shape_.head_dim)));
  }
}

// ---- Loading --------------------------------------------------------------------------------------------------

void Engine::add_matrix(const std::string& name, Format format, int rows, int cols, const std::uint8_t* file) {
  PackedMatrix packed = packed_shape(format, rows, cols);
  const std::size_t bytes = static_cast<std::size_t>(packed.panels) * packed.panel_bytes;
  std::uint8_t* data = weights_.take(bytes);
  team_.run([&](int) {
    team_.share(packed.panels, 8, [&](int begin, int end) { pack_panels(packed, file, begin, end, data); });
  });
  packed.data = data;
  weight_bytes_ += static_cast<std::int64_t>(bytes);
  matrices_[name] = packed;
}

void Engine::add_vector(const std::string& name, const float* values, int count) {
  std::vector<float> padded(static_cast<std::size_t>(round_up(count, kPanelRows)));
  std::copy_n(values, count, padded.begin());
  weight_bytes_ += static_cast<std::int64_t>(padded.size() * sizeof(float));
  vectors_[name] = std::move(padded);
}

const PackedMatrix& Engine::matrix(const std::string& name, int rows, int cols) const {
  const auto found = matrices_.find(name + ".weight");
  if (found == matrices_.end()) throw std::invalid_argument("the matrix `" + name + ".weight` is missing");
  const PackedMatrix& packed = found->second;
  if (packed.rows != rows || packed.cols != cols) {
    throw std::invalid_argument("`" + name + ".weight` is " + std::to_string(packed.rows) + " x " +
                                std::to_string(packed.cols) + ", not " + std::to_string(rows) + " x " +
                                std::to_string(cols));
  }
  return packed;
}

const float* Engine::vector(const std::string& name, int count) const {
  const auto found = vectors_.find(name);
  if (found == vectors_.end()) throw std::invalid_argument("the vector `" + name + "` is missing");
  if (found->second.size() != static_cast<std::size_t>(round_up(count, kPanelRows))) {
    throw std::invalid_argument("`" + name + "` does not have " + std::to_string(count) + " values");
  }
  return found->second.data();
}

const float* Engine::bias(const std::string& name, int count) const {
  return vectors_.contains(name + ".bias") ? vector(name + ".bias", count) : nullptr;
}

NormWeights Engine::norm(const std::string& name) const {
  return {vector(name + ".weight", shape_.hidden_size), bias(name, shape_.hidden_size), shape_.norm_eps,
          shape_.layer_norm};
}

void Engine::finish_loading() {
  const int hidden = shape_.hidden_size, ffn = shape_.ffn_size;
  const int q_size = shape_.num_heads * shape_.head_dim, kv_size = shape_.num_kv_heads * shape_.head_dim;
  for (int i = 0; i < shape_.num_layers; ++i) {
    const std::string prefix = "layers." + std::to_string(i) + ".";
    const auto optional = [&](const char* name) -> const float* {
      const std::string full = prefix + name + ".weight";
      return vectors_.contains(full) ? vector(full, shape_.head_dim) : nullptr;
    };
    Layer layer{};
    layer.attn_norm = norm(prefix + "attn_norm");
    layer.ffn_norm = norm(prefix + "ffn_norm");
    layer.q_norm = optional("q_norm");
    layer.k_norm = optional("k_norm");
    layer.q = matrix(prefix + "q", q_size, hidden);
    layer.k = matrix(prefix + "k", kv_size, hidden);
    layer.v = matrix(prefix + "v", kv_size, hidden);
    layer.o = matrix(prefix + "o", hidden, q_size);
    if (shape_.gated) layer.gate = matrix(prefix + "gate", ffn, hidden);
    layer.up = matrix(prefix + "up", ffn, hidden);
    layer.down = matrix(prefix + "down", hidden, ffn);
    layer.q_bias = bias(prefix + "q", q_size);
    layer.k_bias = bias(prefix + "k", kv_size);
    layer.v_bias = bias(prefix + "v", kv_size);
    layer.o_bias = bias(prefix + "o", hidden);
    layer.gate_bias = bias(prefix + "gate", ffn);
    layer.up_bias = bias(prefix + "up", ffn);
    layer.down_bias = bias(prefix + "down", hidden);
    layer.window = shape_.layer_windows[static_cast<std::size_t>(i)];
    layers_.push_back(layer);
  }
  final_norm_ = norm("final_norm");
  embedding_ = matrix("embed", shape_.vocab_size, hidden);
  head_ = matrices_.contains("head.weight") ? matrix("head", shape_.vocab_size, hidden) : embedding_;
}

// ---- KV -------------------------------------------------------------------------------------------------------

void Engine::copy_block(int source, int target) {
  const auto bytes = static_cast<std::size_t>(arena_.layer_block_bytes());
  for (int layer = 0; layer < shape_.num_layers; ++layer) std::memmove(arena_.at(layer, target, 0), arena_.at(layer, source, 0), bytes);
}

void Engine::export_block(int block, std::uint8_t* target) const {
  const auto bytes = static_cast<std::size_t>(arena_.layer_block_bytes());
  for (int layer = 0; layer < shape_.num_layers; ++layer) std::memcpy(target + layer * bytes, arena_.at(layer, block, 0), bytes);
}

void Engine::import_block(int block, const std::uint8_t* source) {
  const auto bytes = static_cast<std::size_t>(arena_.layer_block_bytes());
  for (int layer = 0; layer < shape_.num_layers; ++layer) std::memcpy(arena_.at(layer, block, 0), source + layer * bytes, bytes);
}

// ---- The pass -------------------------------------------------------------------------------------------------

void Engine::grow_rotations(int places) {
  const std::vector<double>& frequencies = shape_.inverse_frequencies;
  const std::size_t pairs = frequencies.size();
  std::size_t known = pairs ? cosines_.size() / pairs : static_cast<std::size_t>(places);
  if (known >= static_cast<std::size_t>(places)) return;
  const std::size_t wanted =
      std::min<std::size_t>(std::max<std::size_t>(2 * known, static_cast<std::size_t>(places)),
                            static_cast<std::size_t>(std::max(places, shape_.max_context)));
  cosines_.reserve(wanted * pairs);
  sines_.reserve(wanted * pairs);
  for (std::size_t place = known; place < wanted; ++place) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(place) * frequency;
      cosines_.push_back(static_cast<float>(std::cos(angle)));
      sines_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

void Engine::reserve(int rows) {
  Buffers& b = *buffers_;
  if (rows <= b.rows) return;
  b.x = Memory(sizeof(float) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(b.stride_x));
  b.q = Memory(sizeof(float) * static_cast<std::size_t>(rows) * static_cast<std::size_t>(b.stride_q));
  b.rows = rows;
}

void Engine::plan_attention(const BatchView& batch) {
  Buffers& b = *buffers_;
  b.attention.clear();
  std::int64_t records = 0;
  const int record_floats = part_floats(shape_.head_dim);
  const AttentionShape shape{shape_.num_heads / shape_.num_kv_heads, shape_.num_kv_heads, team_.size(),
                             kMaxPartFloats / record_floats, arena_.format() != KvFormat::f16};
  for (const Slab& slab : b.slabs) {
    b.attention.emplace_back(batch.sequences, slab.first, slab.count, shape);
    records = std::max(records, b.attention.back().num_records() * shape_.num_heads);
  }
  for (std::size_t i = 0; i < b.slabs.size(); ++i) b.slabs[i].attention = &b.attention[i];
  const auto bytes = static_cast<std::size_t>(records * record_floats) * sizeof(float);
  if (bytes > b.parts.bytes()) b.parts = Memory(bytes);
}

bool Engine::run(const BatchView& batch, float* logits, float* hidden, const TopLogits& top) {
  Buffers& b = *buffers_;
  reserve(batch.num_rows);
  b.places.resize(static_cast<std::size_t>(batch.num_rows));
  b.refined.resize(static_cast<std::size_t>(batch.num_rows));
  int places = 0;
  for (const SequenceRows& sequence : batch.sequences) {
    for (int i = 0; i < sequence.num_rows; ++i) {
      b.places[static_cast<std::size_t>(sequence.first_row + i)] = sequence.first_place + i;
    }
    places = std::max(places, sequence.first_place + sequence.num_rows);
  }
  grow_rotations(places);
  b.slabs.clear();
  std::int32_t* refined = b.refined.data();
  for (int first = 0; first < batch.num_rows; first += kSlabRows) {
    Slab slab{first, std::min(kSlabRows, batch.num_rows - first), refined, 0, nullptr};
    for (int row = 0; row < slab.count; ++row) {
      if (b.places[static_cast<std::size_t>(first + row)] < kRefinedPlaces) refined[slab.num_refined++] = row;
    }
    refined += slab.num_refined;
    b.slabs.push_back(slab);
  }
  plan_attention(batch);
  kv_writes_.plan(batch.sequences, batch.num_rows);
  stopping_ = false;
  team_.run([&](int worker) { forward(batch, logits, hidden, top, worker); });
  if (stopping_) kv_writes_.put_back(stopped_at_);
  return !stopping_;
}

void Engine::forward(const BatchView& batch, float* logits, float* hidden, const TopLogits& top, int worker) {
  embed(batch);
  for (int index = 0; index < shape_.num_layers; ++index) {
    team_.barrier([&] {
      stopping_ = stop_.load(std::memory_order_relaxed);
      stopped_at_ = index;
    });
    if (stopping_) return;
    const Layer& layer = layers_[static_cast<std::size_t>(index)];
    if (kv_writes_.num_to_bring() > 0) {
      team_.share(kv_writes_.num_to_bring(), 1, [&](int unit, int) { kv_writes_.bring(index, unit); });
    }
    for (const Slab& slab : buffers_->slabs) project_qkv(layer, index, slab, worker);
    if (kv_writes_.num_to_settle() > 0) {
      team_.share(kv_writes_.num_to_settle(), 1, [&](int unit, int) { kv_writes_.settle(kernels_, index, unit); });
    }
    for (const Slab& slab : buffers_->slabs) {
      attend(layer, index, slab, worker);
      feed_forward(layer, slab, worker);
    }
  }
  finish(batch, logits, hidden, top, worker);
}

void Engine::embed(const BatchView& batch) {
  Buffers& b = *buffers_;
  team_.share(batch.num_rows, 4, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      float* x = b.x.as<float>() + std::int64_t{row} * b.stride_x;
      unpack_row(embedding_, batch.token_ids[row], x);
      for (int i = 0; i < shape_.hidden_size; ++i) x[i] *= shape_.embedding_scale;
    }
  });
}

void Engine::linears(const LinearJob* jobs, int num_jobs, int worker) {
  // Every worker streams one stretch of the weights, as many bytes as the others, in portions small enough that
  // somebody who is done early can help.
  std::size_t bytes = 0;
  int panels = 0;
  for (int i = 0; i < num_jobs; ++i) {
    bytes += static_cast<std::size_t>(jobs[i].weights->panels) * jobs[i].weights->panel_bytes;
    panels += jobs[i].weights->panels;
  }
  // The first panel, counted over all jobs, before which lies a share of the bytes.
  const auto panel_at = [&](int share) {
    std::size_t rest = bytes * static_cast<std::size_t>(share) / static_cast<std::size_t>(team_.size());
    int before = 0;
    for (int i = 0; i < num_jobs; ++i) {
      const PackedMatrix& weights = *jobs[i].weights;
      const std::size_t size = static_cast<std::size_t>(weights.panels) * weights.panel_bytes;
      if (rest < size) return before + static_cast<int>(rest / weights.panel_bytes);
      rest -= size;
      before += weights.panels;
    }
    return panels;
  };
  const auto most = static_cast<int>(kMostPortionBytes / jobs[0].weights->panel_bytes);
  const int grain = std::max(2, std::min(panels / (8 * team_.size()), most) / 2 * 2);
  auto* scratch = buffers_->linear_scratch[static_cast<std::size_t>(worker)].as<std::uint8_t>();
  team_.share_stretches(worker, grain, panel_at, [&](int begin, int end) {
    for (const LinearJob* job = jobs; begin < end; ++job) {
      const int stop = std::min(end, job->weights->panels);
      if (begin < stop) kernels_.linear(*job, begin, stop, scratch);
      begin = std::max(begin, stop) - job->weights->panels;
      end -= job->weights->panels;
    }
  });
}

// Where a slab's rows are prepared: in `rows`, by whoever takes them, or a lone row by every worker for itself. That
// takes less time than waiting for the one who would do it for all.
Engine::Prepared Engine::prepared(const Slab& slab, const Memory& rows, int stride, int worker) const {
  const Buffers& b = *buffers_;
  const auto own = static_cast<std::size_t>(worker);
  if (slab.count == 1) {
    return {b.lone_row[own].as<float>(), stride, quant_rows(b.lone_quants[own], slab.terms(), stride)};
  }
  return {rows.as<float>(), stride, quant_rows(b.quants, slab.terms(), stride)};
}

// Each worker has a stretch of the rows, and takes whole tiles of it. Rows of one tile, or of one block of KV, share
// cache lines: taken in turn by two workers they cost as much as on one alone.
template <class F>
void Engine::share_rows(int count, int worker, F&& row) {
  const int tiles = round_up(kSlots, kernels_.tile_rows), size = team_.size();
  const int together = count < tiles * size ? 1 : tiles;
  const auto start = [&](int share) { return share == size ? count : count * share / size / together * together; };
  team_.share_stretches(worker, together, start, [&](int begin, int end) {
    for (int number = begin; number < end; ++number) row(number);
  });
}

template <class F>
void Engine::prepare(const Slab& slab, int worker, F&& row) {
  if (slab.count == 1) return row(0);
  share_rows(slab.count, worker, row);
}

// Both terms of one row of a slab.
void Engine::quantise(const Slab& slab, const float* x, int n, int row, const QuantRows& quant) const {
  kernels_.quantise(x, n, row, slab.terms(), quant);
  const std::int32_t* end = slab.refined + slab.num_refined;
  const std::int32_t* found = std::lower_bound(slab.refined, end, row);
  if (found == end || *found != row) return;
  kernels_.quantise_rest(x, n, slab.count + static_cast<int>(found - slab.refined), slab.terms(), quant);
}

void Engine::project_qkv(const Layer& layer, int index, const Slab& slab, int worker) {
  Buffers& b = *buffers_;
  const int hidden = shape_.hidden_size, first = slab.first, count = slab.count;
  const Prepared normed = prepared(slab, b.normed, b.stride_x, worker);
  const bool quantised = layer.q.quantised() || layer.k.quantised() || layer.v.quantised();
  prepare(slab, worker, [&](int row) {
    kernels_.norm(b.x.as<float>() + std::int64_t{first + row} * b.stride_x, layer.attn_norm, hidden, normed.row(row));
    if (quantised) quantise(slab, normed.row(row), hidden, row, normed.quant);
  });
  const auto job = [&](const PackedMatrix& weights, const float* bias, float* output, int stride) {
    return LinearJob{&weights, bias, count, normed.rows, normed.stride, normed.quant, output, stride, false, 1.0f,
                     slab.refined, slab.num_refined};
  };
  const LinearJob jobs[] = {
      job(layer.q, layer.q_bias, b.q.as<float>() + std::int64_t{first} * b.stride_q, b.stride_q),
      job(layer.k, layer.k_bias, b.keys.as<float>(), b.stride_kv),
      job(layer.v, layer.v_bias, b.values.as<float>(), b.stride_kv),
  };
  linears(jobs, 3, worker);
  const int kv_heads = shape_.num_kv_heads, dim = shape_.head_dim;
  const auto pairs = static_cast<int>(shape_.inverse_frequencies.size());
  share_rows(count, worker, [&](int row) {
    const std::int32_t place = b.places[static_cast<std::size_t>(first + row)];
    const HalfBlock& block = kv_writes_.block_of(first + row);
    const float* cosines = cosines_.data() + static_cast<std::size_t>(place) * static_cast<std::size_t>(pairs);
    const float* sines = sines_.data() + static_cast<std::size_t>(place) * static_cast<std::size_t>(pairs);
    const auto turn = [&](float* vector, const float* norm, float scale) {
      if (norm) kernels_.norm(vector, {norm, nullptr, shape_.norm_eps, false}, dim, vector);
      kernels_.rotate(vector, cosines, sines, pairs, dim, scale);
    };
    float* q = b.q.as<float>() + std::int64_t{first + row} * b.stride_q;
    for (int head = 0; head < shape_.num_heads; ++head) turn(q + head * dim, layer.q_norm, shape_.attention_scale);
    for (int head = 0; head < kv_heads; ++head) {
      float* key = b.keys.as<float>() + std::int64_t{row} * b.stride_kv + head * dim;
      const float* value = b.values.as<float>() + std::int64_t{row} * b.stride_kv + head * dim;
      turn(key, layer.k_norm, 1.0f);
      kernels_.store_kv(key, value, dim, block.keys(index, head), block.values(index, head), place % kSlots);
    }
  });
}

// One tile or part of the slab's plan, of one KV head.
void Engine::attend_unit(const Layer& layer, int index, const Slab& slab, int unit, int worker) {
  Buffers& b = *buffers_;
  const AttentionPlan& plan = *slab.attention;
  const int group = shape_.num_heads / shape_.num_kv_heads, dim = shape_.head_dim;
  const int head = unit % shape_.num_kv_heads, number = unit / shape_.num_kv_heads;
  const std::int64_t column = std::int64_t{head} * group * dim;
  AttentionRow rows[kTileQueries];
  AttentionTile tile{rows, 0, group, dim, layer.window, nullptr, arena_.format(), arena_.at(index, 0, head),
                     arena_.layer_block_bytes(), {},
                     b.attention_scratch[static_cast<std::size_t>(worker)].as<float>()};
  const auto add_row = [&](const SequenceRows& sequence, int row, float* output) {
    const std::int32_t place = b.places[static_cast<std::size_t>(row)];
    tile.half_blocks = kv_writes_.halves_of(row, place, index, head);   // the same for all rows
    rows[tile.num_rows++] = {b.q.as<float>() + std::int64_t{row} * b.stride_q + column, output,
                             place, {sequence.window, sequence.num_sinks, sequence.prefix}};
  };
  const auto num_tiles = static_cast<int>(plan.tiles().size());
  if (number < num_tiles) {
    // The last tiles see most places and go first.
    const AttentionPlan::Tile& planned = plan.tiles()[static_cast<std::size_t>(num_tiles - 1 - number)];
    tile.block_table = planned.sequence->block_table;
    for (int row = planned.first_row; row < planned.first_row + planned.num_rows; ++row) {
      add_row(*planned.sequence, row,
              b.attended.as<float>() + std::int64_t{row - slab.first} * b.stride_q + column);
    }
    return kernels_.attend(tile);
  }
  const AttentionPlan::Part& part = plan.parts()[static_cast<std::size_t>(number - num_tiles)];
  tile.block_table = part.block_table;
  for (int i = part.first_member; i < part.first_member + part.num_members; ++i) {
    const AttentionPlan::Member& member = plan.member(i);
    add_row(*member.sequence, member.row,
            part_of(plan.records(member.row).first + part.chunks.start, head * group));
  }
  kernels_.attend_parts(tile, part.chunks, std::int64_t{shape_.num_heads} * part_floats(dim));
}

float* Engine::part_of(std::int64_t record, int head) const {
  return buffers_->parts.as<float>() + (record * shape_.num_heads + head) * part_floats(shape_.head_dim);
}

void Engine::attend(const Layer& layer, int index, const Slab& slab, int worker) {
  Buffers& b = *buffers_;
  const AttentionPlan& plan = *slab.attention;
  const int first = slab.first, count = slab.count, dim = shape_.head_dim, q_size = shape_.num_heads * dim;
  const auto units = static_cast<int>(plan.tiles().size() + plan.parts().size()) * shape_.num_kv_heads;
  team_.share(units, 1, [&](int unit, int) { attend_unit(layer, index, slab, unit, worker); });

  const Prepared attended = prepared(slab, b.attended, b.stride_q, worker);
  prepare(slab, worker, [&](int row) {
    float* merged = attended.row(row);
    const AttentionPlan::Records& records = plan.records(first + row);
    if (records.num_chunks > 0) {
      for (int head = 0; head < shape_.num_heads; ++head) {
        kernels_.merge_parts(part_of(records.first, head), records.num_chunks,
                             std::int64_t{shape_.num_heads} * part_floats(dim), dim, merged + head * dim);
      }
    } else if (merged != b.attended.as<float>() + std::int64_t{row} * b.stride_q) {
      std::copy_n(b.attended.as<float>(), q_size, merged);   // of a lone row
    }
    if (layer.o.quantised()) quantise(slab, merged, q_size, row, attended.quant);
  });
  const LinearJob job{&layer.o, layer.o_bias, count, attended.rows, attended.stride, attended.quant,
                      b.x.as<float>() + std::int64_t{first} * b.stride_x, b.stride_x, true, shape_.residual_scale,
                      slab.refined, slab.num_refined};
  linears(&job, 1, worker);
}

void Engine::feed_forward(const Layer& layer, const Slab& slab, int worker) {
  Buffers& b = *buffers_;
  const int hidden = shape_.hidden_size, ffn = shape_.ffn_size, count = slab.count;
  float* x = b.x.as<float>() + std::int64_t{slab.first} * b.stride_x;
  const Prepared normed = prepared(slab, b.normed, b.stride_x, worker);
  const bool quantised = layer.up.quantised() || (shape_.gated && layer.gate.quantised());
  prepare(slab, worker, [&](int row) {
    kernels_.norm(x + std::int64_t{row} * b.stride_x, layer.ffn_norm, hidden, normed.row(row));
    if (quantised) quantise(slab, normed.row(row), hidden, row, normed.quant);
  });
  const auto job = [&](const PackedMatrix& weights, const float* bias, float* output) {
    return LinearJob{&weights,     bias,   count,        normed.rows, normed.stride,
                     normed.quant, output, b.stride_ffn, false,       1.0f,
                     slab.refined, slab.num_refined};
  };
  const LinearJob jobs[] = {job(layer.up, layer.up_bias, b.up.as<float>()),
                            job(layer.gate, layer.gate_bias, b.gate.as<float>())};
  if (count > 1 && layer.down.quantised()) {
    inner_blocks(slab, jobs, worker);
    const QuantRows quant = quant_rows(b.inner_quants, slab.terms(), ffn);
    const LinearJob down{&layer.down,  layer.down_bias, count, nullptr,               0, quant,
                         x,            b.stride_x,      true,  shape_.residual_scale,
                         slab.refined, slab.num_refined};
    return linears(&down, 1, worker);
  }
  linears(jobs, shape_.gated ? 2 : 1, worker);

  const Prepared inner = prepared(slab, b.up, b.stride_ffn, worker);
  prepare(slab, worker, [&](int row) {
    const float* up = b.up.as<float>() + std::int64_t{row} * b.stride_ffn;
    const float* gate = b.gate.as<float>() + std::int64_t{row} * b.stride_ffn;
    // Whole vectors: the padding of a row is zero and stays so.
    if (shape_.gated) {
      kernels_.gate(gate, up, round_up(ffn, kPanelRows), inner.row(row));
    } else {
      kernels_.gelu(up, round_up(ffn, kPanelRows), inner.row(row));
    }
    if (layer.down.quantised()) quantise(slab, inner.row(row), ffn, row, inner.quant);
  });
  const LinearJob down{&layer.down,  layer.down_bias, count, inner.rows,            inner.stride, inner.quant,
                       x,            b.stride_x,      true,  shape_.residual_scale,
                       slab.refined, slab.num_refined};
  linears(&down, 1, worker);
}

// What the quantised down projection reads, a few blocks of columns at a time: the products for all rows of the slab,
// the activation function and quantising, while all of it lies in the worker's own cache. Whole rows of a prompt do not
// fit there, and products that are written to farther away take twice as long.
void Engine::inner_blocks(const Slab& slab, const LinearJob (&jobs)[2], int worker) {
  Buffers& b = *buffers_;
  const int blocks = shape_.ffn_size / kBlockValues, tile_rows = kernels_.tile_rows;
  const int width = std::clamp(kSlabRows / slab.count, 1, kInnerBlocks);
  const int stride = width * kBlockValues;
  const auto own = static_cast<std::size_t>(worker);
  float* up = b.inner[own].as<float>();
  float* gate = up + std::int64_t{slab.count} * stride;
  auto* scratch = b.linear_scratch[own].as<std::uint8_t>();
  const QuantRows quant = quant_rows(b.inner_quants, slab.terms(), shape_.ffn_size);
  const auto multiply = [&](LinearJob job, float* output, int first_block, int count) {
    constexpr int panels = kBlockValues / kPanelRows;
    const PackedMatrix columns = job.weights->from_panel(first_block * panels);
    job.weights = &columns;
    if (job.bias) job.bias += first_block * kBlockValues;
    job.output = output;
    job.output_stride = stride;
    kernels_.linear(job, 0, count * panels, scratch);
  };
  const auto start = [&](int share) { return blocks * share / team_.size(); };
  team_.share_stretches(worker, width, start, [&](int begin, int end) {
    multiply(jobs[0], up, begin, end - begin);
    if (shape_.gated) {
      multiply(jobs[1], gate, begin, end - begin);
      kernels_.gate(gate, up, slab.count * stride, up);
    } else {
      kernels_.gelu(up, slab.count * stride, up);
    }
    for (int term = 0; term < slab.terms(); ++term) {
      const bool second = term >= slab.count;
      const float* values = up + std::int64_t{second ? slab.refined[term - slab.count] : term} * stride;
      const auto quantise = second ? kernels_.quantise_rest : kernels_.quantise;
      for (int block = begin; block < end; ++block) {
        quantise(values + (block - begin) * kBlockValues, kBlockValues, term, slab.terms(),
                 block_of_tile(quant, tile_rows, term, slab.terms(), block, blocks));
      }
    }
  });
}

// The last norm and the head, for the rows that were asked for.
void Engine::finish(const BatchView& batch, float* logits, float* hidden, const TopLogits& top, int worker) {
  Buffers& b = *buffers_;
  const int size = shape_.hidden_size;
  const auto x = [&](int row) { return b.x.as<float>() + std::int64_t{row} * b.stride_x; };
  team_.share(batch.num_hidden_rows, 1, [&](int row, int) {
    kernels_.norm(x(batch.hidden_rows[row]), final_norm_, size, hidden + std::int64_t{row} * size);
  });
  for (int first = 0; first < batch.num_logit_rows; first += kSlabRows) {
    const int count = std::min(kSlabRows, batch.num_logit_rows - first);
    const Slab slab{first, count, b.every.data(), count, nullptr};
    const Prepared normed = prepared(slab, b.normed, b.stride_x, worker);
    prepare(slab, worker, [&](int row) {
      kernels_.norm(x(batch.logit_rows[first + row]), final_norm_, size, normed.row(row));
      if (head_.quantised()) quantise(slab, normed.row(row), size, row, normed.quant);
    });
    float* output = logits + std::int64_t{first} * shape_.vocab_size;
    const LinearJob job{&head_,       nullptr, count,             normed.rows, normed.stride,
                        normed.quant, output,  shape_.vocab_size, false,       1.0f,
                        slab.refined, slab.num_refined};
    linears(&job, 1, worker);
    if (shape_.logit_scale == 1.0f && top.count == 0) continue;
    team_.share(count, 1, [&](int row, int) {
      float* scaled = output + std::int64_t{row} * shape_.vocab_size;
      for (int i = 0; shape_.logit_scale != 1.0f && i < shape_.vocab_size; ++i) scaled[i] *= shape_.logit_scale;
      if (top.count == 0) return;
      const std::int64_t at = std::int64_t{first + row} * top.count;
      kernels_.top(scaled, shape_.vocab_size, top.count, top.ids + at, top.logits + at, top.log_totals + first + row);
    });
  }
}

}  // namespace halfline
