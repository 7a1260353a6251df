#include "weights.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "pack.hpp"

namespace halfline {
namespace {

// Kernels read and write whole panels: what is behind a vector's values is zero.
std::size_t padded(int count) { return static_cast<std::size_t>((count + kPanelRows - 1) / kPanelRows * kPanelRows); }

}  // namespace

void Weights::add_matrix(Team& team, const std::string& name, Format format, int rows, int cols,
                         const std::uint8_t* file) {
  PackedMatrix packed = packed_shape(format, rows, cols);
  const std::size_t bytes = static_cast<std::size_t>(packed.panels) * packed.panel_bytes;
  std::uint8_t* data = memory_.take(bytes);
  team.run([&](int) {
    team.share(packed.panels, 8, [&](int begin, int end) { pack_panels(packed, file, begin, end, data); });
  });
  packed.data = data;
  bytes_ += static_cast<std::int64_t>(bytes);
  matrices_[name] = packed;
}

void Weights::add_vector(const std::string& name, const float* values, int count) {
  std::vector<float> whole(padded(count));
  std::copy_n(values, count, whole.begin());
  bytes_ += static_cast<std::int64_t>(whole.size() * sizeof(float));
  vectors_[name] = std::move(whole);
}

void Weights::finish() {
  for (int index = 0; index < shape_.num_layers; ++index) layers_.push_back(found_layer(index));
  final_norm_ = norm("final_norm");
  embedding_ = matrix("embed", shape_.vocab_size, shape_.hidden_size);
  head_ = matrices_.contains("head.weight") ? matrix("head", shape_.vocab_size, shape_.hidden_size) : embedding_;
}

LayerWeights Weights::found_layer(int index) const {
  const int hidden = shape_.hidden_size, ffn = shape_.ffn_size, q_size = shape_.q_size(), kv_size = shape_.kv_size();
  const std::string prefix = "layers." + std::to_string(index) + ".";
  LayerWeights layer{};
  layer.index = index;
  layer.window = shape_.layer_windows[static_cast<std::size_t>(index)];
  layer.attn_norm = norm(prefix + "attn_norm");
  layer.ffn_norm = norm(prefix + "ffn_norm");
  layer.q_norm = vector_or_null(prefix + "q_norm.weight", shape_.head_dim);
  layer.k_norm = vector_or_null(prefix + "k_norm.weight", shape_.head_dim);
  layer.q = linear(prefix + "q", q_size, hidden);
  layer.k = linear(prefix + "k", kv_size, hidden);
  layer.v = linear(prefix + "v", kv_size, hidden);
  layer.o = linear(prefix + "o", hidden, q_size);
  if (shape_.gated) layer.gate = linear(prefix + "gate", ffn, hidden);
  layer.up = linear(prefix + "up", ffn, hidden);
  layer.down = linear(prefix + "down", hidden, ffn);
  return layer;
}

const PackedMatrix& Weights::matrix(const std::string& name, int rows, int cols) const {
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

const float* Weights::vector(const std::string& name, int count) const {
  const auto found = vectors_.find(name);
  if (found == vectors_.end()) throw std::invalid_argument("the vector `" + name + "` is missing");
  if (found->second.size() != padded(count)) {
    throw std::invalid_argument("`" + name + "` does not have " + std::to_string(count) + " values");
  }
  return found->second.data();
}

const float* Weights::vector_or_null(const std::string& name, int count) const {
  return vectors_.contains(name) ? vector(name, count) : nullptr;
}

Linear Weights::linear(const std::string& name, int rows, int cols) const {
  return {matrix(name, rows, cols), vector_or_null(name + ".bias", rows)};
}

NormWeights Weights::norm(const std::string& name) const {
  return {vector(name + ".weight", shape_.hidden_size), vector_or_null(name + ".bias", shape_.hidden_size),
          shape_.norm_eps, shape_.layer_norm};
}

}  // namespace halfline
