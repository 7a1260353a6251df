#include "rotations.hpp"

#include <algorithm>
#include <cmath>

namespace halfline {

void Rotations::grow(int places) {
  const std::vector<double>& frequencies = shape_.inverse_frequencies;
  if (frequencies.empty()) return;
  const std::size_t known = cosines_.size() / frequencies.size(), least = static_cast<std::size_t>(places);
  if (known >= least) return;
  const std::size_t wanted =
      std::min(std::max(2 * known, least), static_cast<std::size_t>(std::max(places, shape_.max_context)));
  cosines_.reserve(wanted * frequencies.size());
  sines_.reserve(wanted * frequencies.size());
  for (std::size_t place = known; place < wanted; ++place) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(place) * frequency;
      cosines_.push_back(static_cast<float>(std::cos(angle)));
      sines_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

}  // namespace halfline
