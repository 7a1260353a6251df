// The forward pass of one model over a paged KV arena.
//
// Trusts its caller: native/executor.py has checked every index of a batch. Knows the order of things, what stops a
// pass, and the first and last step of it; layers are in attend.hpp and feed_forward.hpp. Knows no Python.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "choose.hpp"
#include "weights.hpp"
#include "workspace.hpp"

namespace halfline {

// One sequence that goes on by itself, each token the one with the largest logit.
struct GreedyRun {
  std::int32_t token_id;                   // the last that is known; its KV is not written yet
  SequenceRows sequence;                   // its one row; the table has room for all
  std::span<const std::int32_t> end_ids;   // tokens behind which it does not go on
  int max_tokens;
};

// Where a pass leaves what is wanted of it.
struct Wanted {
  float* logits;           // [logit_rows, vocab_size]
  float* hidden;           // [hidden_rows, hidden_size]
  TopLogits top;           // of logit rows
  std::int32_t* choices;   // [choice_rows], see Chooser
};

class Engine {
 public:
  Engine(const ModelShape& shape, KvFormat kv_format, int num_blocks, int num_threads, Isa isa);

  // Canonical names as in model/checkpoint.py. A matrix is packed at once: `file` may go away afterwards.
  void add_matrix(const std::string& name, Format format, int rows, int cols, const std::uint8_t* file);
  void add_vector(const std::string& name, const float* values, int count);
  // After the last tensor and before the first run. Throws std::invalid_argument naming a tensor that is missing or
  // has another shape than the model needs.
  void finish_loading();

  // False when the stop flag was seen.
  bool run(const BatchView& batch, const Wanted& wanted);

  // Steps of one row, one after the other: `ids` are the tokens that single runs would have given, with an end as the
  // last. Fewer than asked for, how many is returned, when the stop flag was seen or there was no choice.
  int decode(const GreedyRun& run, std::int32_t* ids);

  std::atomic<bool>& stop_flag() { return stop_; }
  const char* isa() const { return space_.kernels.name; }
  std::int64_t weight_bytes() const { return weights_.bytes(); }

  std::int64_t block_bytes() const { return space_.arena.block_bytes(); }
  void copy_block(int source, int target);
  void export_block(int block, std::uint8_t* bytes) const;
  void import_block(int block, const std::uint8_t* bytes);

 private:
  void forward(const BatchView& batch, const Wanted& wanted, int worker);
  void embed(const BatchView& batch);
  void run_layer(const LayerWeights& layer, int worker);
  void finish(const BatchView& batch, const Wanted& wanted, int worker);

  const ModelShape shape_;
  Weights weights_{shape_};
  Workspace space_;
  Chooser chooser_;
  std::atomic<bool> stop_{false};
  bool stopping_ = false;   // what all workers of a pass agreed on
  int stopped_at_ = 0;      // the layer that was not begun
};

}  // namespace halfline
