// By how much the pairs of a head are turned at each place: cosines and sines, computed as far as places were reached.
#pragma once

#include <vector>

#include "model_shape.hpp"

namespace halfline {

class Rotations {
 public:
  // The shape stays with its owner.
  explicit Rotations(const ModelShape& shape) : shape_(shape) {}

  // Before the places [0, places) are asked for; pointers handed out earlier end here.
  void grow(int places);

  int pairs() const { return static_cast<int>(shape_.inverse_frequencies.size()); }
  // [pairs] each.
  const float* cosines(int place) const { return cosines_.data() + at(place); }
  const float* sines(int place) const { return sines_.data() + at(place); }

 private:
  std::size_t at(int place) const { return static_cast<std::size_t>(place) * shape_.inverse_frequencies.size(); }

  const ModelShape& shape_;
  std::vector<float> cosines_, sines_;   // [places][pairs]
};

}  // namespace halfline
