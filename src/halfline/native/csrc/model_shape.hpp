// ModelSpec of model/spec.py as far as computing needs it.
#pragma once

#include <cstdint>
#include <vector>

namespace halfline {

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

  int group_size() const { return num_heads / num_kv_heads; }   // query heads of one KV head
  int q_size() const { return num_heads * head_dim; }           // of one row, over all heads
  int kv_size() const { return num_kv_heads * head_dim; }
};

}  // namespace halfline
