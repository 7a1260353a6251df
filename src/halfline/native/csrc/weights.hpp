// The tensors of one model, packed, and where each layer finds its own.
//
// Knows names and shapes; computes nothing with what it holds.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels.hpp"
#include "memory.hpp"
#include "model_shape.hpp"
#include "packed.hpp"
#include "team.hpp"

namespace halfline {

struct Linear {
  PackedMatrix matrix;
  const float* bias;   // null without one
};

struct LayerWeights {
  int index;             // of the layer
  std::int32_t window;   // its own band, INT32_MAX for none
  NormWeights attn_norm, ffn_norm;
  const float *q_norm, *k_norm;   // null without them
  Linear q, k, v, o, gate, up, down;
};

class Weights {
 public:
  // The shape stays with its owner.
  explicit Weights(const ModelShape& shape) : shape_(shape) {}

  // See Engine. The team shares the packing.
  void add_matrix(Team& team, const std::string& name, Format format, int rows, int cols, const std::uint8_t* file);
  void add_vector(const std::string& name, const float* values, int count);
  void finish();

  std::int64_t bytes() const { return bytes_; }

  // After `finish`.
  const LayerWeights& layer(int index) const { return layers_[static_cast<std::size_t>(index)]; }
  const NormWeights& final_norm() const { return final_norm_; }
  const PackedMatrix& embedding() const { return embedding_; }
  const PackedMatrix& head() const { return head_; }

 private:
  LayerWeights found_layer(int index) const;
  const PackedMatrix& matrix(const std::string& name, int rows, int cols) const;
  const float* vector(const std::string& name, int count) const;
  const float* vector_or_null(const std::string& name, int count) const;
  Linear linear(const std::string& name, int rows, int cols) const;
  NormWeights norm(const std::string& name) const;

  const ModelShape& shape_;
  std::int64_t bytes_ = 0;
  MemoryPieces memory_;
  std::unordered_map<std::string, PackedMatrix> matrices_;
  std::unordered_map<std::string, std::vector<float>> vectors_;
  std::vector<LayerWeights> layers_;
  NormWeights final_norm_{};
  PackedMatrix embedding_{};
  PackedMatrix head_{};
};

}  // namespace halfline
