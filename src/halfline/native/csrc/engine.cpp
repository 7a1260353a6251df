#include "engine.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "attend.hpp"
#include "feed_forward.hpp"
#include "linears.hpp"
#include "unpack.hpp"

namespace halfline {

Engine::Engine(const ModelShape& shape, KvFormat kv_format, int num_blocks, int num_threads, Isa isa)
    : shape_(shape), space_(shape_, kv_format, num_blocks, num_threads, isa) {}

void Engine::add_matrix(const std::string& name, Format format, int rows, int cols, const std::uint8_t* file) {
  weights_.add_matrix(space_.team, name, format, rows, cols, file);
}

void Engine::add_vector(const std::string& name, const float* values, int count) {
  weights_.add_vector(name, values, count);
}

void Engine::finish_loading() {
  weights_.finish();
  chooser_.look_at(space_.team, {weights_.head(), nullptr}, shape_.logit_scale);
}

// ---- The pass -------------------------------------------------------------------------------------------------

bool Engine::run(const BatchView& batch, const Wanted& wanted) {
  space_.begin(batch);
  stopping_ = false;
  space_.team.run([&](int worker) { forward(batch, wanted, worker); });
  if (stopping_) space_.kv_writes.put_back(stopped_at_);
  return !stopping_;
}

int Engine::decode(const GreedyRun& run, std::int32_t* ids) {
  std::int32_t token_id = run.token_id, chosen = 0;
  constexpr std::int32_t row = 0;
  BatchView batch{&token_id, 1, {run.sequence}, nullptr, 0, nullptr, 0, &row, 1};
  space_.begin(batch);
  int done = 0;
  bool goes_on = true;
  stopping_ = false;
  space_.team.run([&](int worker) {
    while (goes_on) {
      forward(batch, {nullptr, nullptr, {}, &chosen}, worker);
      if (stopping_) return;
      space_.team.barrier([&] {
        goes_on = chosen >= 0;
        if (!goes_on) return;
        token_id = ids[done++] = chosen;
        goes_on = done < run.max_tokens && std::ranges::find(run.end_ids, token_id) == run.end_ids.end();
        if (!goes_on) return;
        ++batch.sequences[0].first_place;
        space_.begin(batch);
      });
    }
  });
  if (stopping_) space_.kv_writes.put_back(stopped_at_);
  return done;
}

void Engine::forward(const BatchView& batch, const Wanted& wanted, int worker) {
  embed(batch);
  for (int index = 0; index < shape_.num_layers; ++index) {
    space_.team.barrier([&] {
      stopping_ = stop_.load(std::memory_order_relaxed);
      stopped_at_ = index;
    });
    if (stopping_) return;
    run_layer(weights_.layer(index), worker);
  }
  space_.team.barrier([] {});
  finish(batch, wanted, worker);
}

void Engine::embed(const BatchView& batch) {
  space_.team.share(batch.num_rows, 4, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) {
      float* x = space_.x_row(row);
      unpack_row(weights_.embedding(), batch.token_ids[row], x);
      for (int i = 0; i < shape_.hidden_size; ++i) x[i] *= shape_.embedding_scale;
    }
  });
}

void Engine::run_layer(const LayerWeights& layer, int worker) {
  const KvWrites& writes = space_.kv_writes;
  if (writes.num_to_bring() > 0) {
    space_.team.share(writes.num_to_bring(), 1, [&](int unit, int) { writes.bring(layer.index, unit); });
  }
  for (const Slab& slab : space_.plan.slabs()) project_qkv(space_, layer, slab, worker);
  if (writes.num_to_settle() > 0) {
    space_.team.share(writes.num_to_settle(), 1,
                      [&](int unit, int) { writes.settle(space_.kernels, layer.index, unit); });
  }
  const int next = layer.index + 1;
  const bool last = next == shape_.num_layers;
  bool first = true;
  for (const Slab& slab : last ? space_.plan.last_slabs() : space_.plan.slabs()) {
    if (!std::exchange(first, false)) space_.team.barrier([] {});
    attend(space_, layer, slab, worker);
    read_kv_ahead(space_, last ? nullptr : &weights_.layer(next), slab, worker);
    feed_forward(space_, layer, slab, worker);
  }
}

// The last norm and the head, for the rows that were asked for.
void Engine::finish(const BatchView& batch, const Wanted& wanted, int worker) {
  const Kernels& kernels = space_.kernels;
  const TopLogits& top = wanted.top;
  const Linear head{weights_.head(), nullptr};
  const int size = shape_.hidden_size;
  space_.team.share(batch.num_hidden_rows, 1, [&](int row, int) {
    float* hidden = wanted.hidden + std::int64_t{row} * size;
    kernels.norm(space_.x_row(batch.hidden_rows[row]), weights_.final_norm(), size, hidden);
  });
  for (int first = 0; first < batch.num_logit_rows; first += kSlabRows) {
    const int count = std::min(kSlabRows, batch.num_logit_rows - first);
    const Slab slab = space_.plan.head_slab(first, count);
    const Prepared normed = prepared(space_, slab, space_.normed, space_.x_stride, worker);
    prepare(space_, slab, normed, size, head.matrix.quantised(), worker, [&](int row) {
      kernels.norm(space_.x_row(batch.logit_rows[first + row]), weights_.final_norm(), size, normed.row(row));
    });
    float* output = wanted.logits + std::int64_t{first} * shape_.vocab_size;
    const LinearJob job = linear_job(slab, head, normed, output, shape_.vocab_size);
    run_linears(space_, {&job, 1}, worker);
    if (shape_.logit_scale == 1.0f && top.count == 0) continue;
    space_.team.share(count, 1, [&](int row, int) {
      float* scaled = output + std::int64_t{row} * shape_.vocab_size;
      for (int i = 0; shape_.logit_scale != 1.0f && i < shape_.vocab_size; ++i) scaled[i] *= shape_.logit_scale;
      if (top.count == 0) return;
      const std::int64_t at = std::int64_t{first + row} * top.count;
      kernels.top(scaled, shape_.vocab_size, top.count, top.ids + at, top.logits + at, top.log_totals + first + row);
    });
  }
  chooser_.choose(space_, weights_.final_norm(),
                  {batch.choice_rows, static_cast<std::size_t>(batch.num_choice_rows)}, wanted.choices, worker);
}

// ---- KV -------------------------------------------------------------------------------------------------------

void Engine::copy_block(int source, int target) {
  const auto bytes = static_cast<std::size_t>(space_.arena.layer_block_bytes());
  for (int layer = 0; layer < shape_.num_layers; ++layer) {
    std::memmove(space_.arena.at(layer, target, 0), space_.arena.at(layer, source, 0), bytes);
  }
}

void Engine::export_block(int block, std::uint8_t* target) const {
  const auto bytes = static_cast<std::size_t>(space_.arena.layer_block_bytes());
  for (int layer = 0; layer < shape_.num_layers; ++layer) {
    std::memcpy(target + static_cast<std::size_t>(layer) * bytes, space_.arena.at(layer, block, 0), bytes);
  }
}

void Engine::import_block(int block, const std::uint8_t* source) {
  const auto bytes = static_cast<std::size_t>(space_.arena.layer_block_bytes());
  for (int layer = 0; layer < shape_.num_layers; ++layer) {
    std::memcpy(space_.arena.at(layer, block, 0), source + static_cast<std::size_t>(layer) * bytes, bytes);
  }
}

}  // namespace halfline
