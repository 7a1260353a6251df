// The forward pass of one model over a paged KV arena.
//
// Trusts its caller: native/executor.py has checked every index of a batch. Knows no Python.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "attention_plan.hpp"
#include "isa.hpp"
#include "kernels.hpp"
#include "kv_writes.hpp"
#include "memory.hpp"
#include "packed.hpp"
#include "team.hpp"

namespace halfline {

// Room for rows of quantised activations, and the same room cut into its parts.
std::size_t quant_rows_bytes(int rows, int cols);
QuantRows quant_rows(const Memory& memory, int rows, int cols);

// ModelSpec of model/spec.py as far as computing needs it.
struct ModelShape {
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int ffn_size = 0;
  int vocab_size = 0;
  int max_context = 0;
  bool layer_norm = false;
  float norm_eps = 0.0f;
  bool gated = true;
  float attention_scale = 0.0f;
  float embedding_scale = 1.0f;
  float residual_scale = 1.0f;
  float logit_scale = 1.0f;
  std::vector<double> inverse_frequencies;    // one per rotary pair
  std::vector<std::int32_t> layer_windows;    // INT32_MAX for none
};

struct BatchView {
  const std::int32_t* token_ids;
  int num_rows;
  std::vector<SequenceRows> sequences;
  const std::int32_t* logit_rows;
  int num_logit_rows;
  const std::int32_t* hidden_rows;
  int num_hidden_rows;
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

  // False when the stop flag was seen. logits [logit_rows, vocab_size], hidden [hidden_rows, hidden_size].
  bool run(const BatchView& batch, float* logits, float* hidden, const TopLogits& top = {});

  std::atomic<bool>& stop_flag() { return stop_; }
  const char* isa() const { return kernels_.name; }
  std::int64_t weight_bytes() const { return weight_bytes_; }

  std::int64_t block_bytes() const { return arena_.block_bytes(); }
  void copy_block(int source, int target);
  void export_block(int block, std::uint8_t* bytes) const;
  void import_block(int block, const std::uint8_t* bytes);

 private:
  struct Layer {
    NormWeights attn_norm, ffn_norm;
    const float *q_norm, *k_norm;   // null without them
    PackedMatrix q, k, v, o, gate, up, down;
    const float *q_bias, *k_bias, *v_bias, *o_bias, *gate_bias, *up_bias, *down_bias;
    std::int32_t window;
  };
  struct Slab;
  struct Prepared;
  // Buffers that grow with the rows of a batch, and slabs that do not. See engine.cpp.
  struct Buffers;

  const PackedMatrix& matrix(const std::string& name, int rows, int cols) const;
  const float* vector(const std::string& name, int count) const;
  const float* bias(const std::string& name, int count) const;
  NormWeights norm(const std::string& name) const;

  void grow_rotations(int places);
  void reserve(int rows);
  void plan_attention(const BatchView& batch);
  void forward(const BatchView& batch, float* logits, float* hidden, const TopLogits& top, int worker);
  void embed(const BatchView& batch);
  void project_qkv(const Layer& layer, int index, const Slab& slab, int worker);
  void attend(const Layer& layer, int index, const Slab& slab, int worker);
  void attend_unit(const Layer& layer, int index, const Slab& slab, int unit, int worker);
  float* part_of(std::int64_t record, int head) const;
  void feed_forward(const Layer& layer, const Slab& slab, int worker);
  void quantise(const Slab& slab, const float* x, int n, int row, const QuantRows& quant) const;
  Prepared prepared(const Slab& slab, const Memory& rows, int stride, int worker) const;
  template <class F>
  void share_rows(int count, int worker, F&& row);
  template <class F>
  void prepare(const Slab& slab, int worker, F&& row);
  void inner_blocks(const Slab& slab, const LinearJob (&jobs)[2], int worker);
  void linears(const LinearJob* jobs, int num_jobs, int worker);
  void finish(const BatchView& batch, float* logits, float* hidden, const TopLogits& top, int worker);

  const ModelShape shape_;
  const Kernels& kernels_;
  Team team_;
  std::atomic<bool> stop_{false};
  bool stopping_ = false;   // what all workers of a pass agreed on
  int stopped_at_ = 0;      // the layer that was not begun
  std::int64_t weight_bytes_ = 0;

  MemoryPieces weights_;
  std::unordered_map<std::string, PackedMatrix> matrices_;
  std::unordered_map<std::string, std::vector<float>> vectors_;
  std::vector<Layer> layers_;
  NormWeights final_norm_{};
  PackedMatrix embedding_{};
  PackedMatrix head_{};

  KvArena arena_;
  KvWrites kv_writes_{arena_};
  std::vector<float> cosines_, sines_;   // [places][pairs]
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace halfline
