// Sixteen vectors folded one by one, for paths that have nothing better: lane i is what `sum` or `largest` gives for v[i].
//
// Included behind the path's own vec_*.hpp.
#pragma once

namespace halfline {
namespace {

inline Vec sum_each(const Vec (&v)[16]) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = sum(v[i]);
  return Vec::load(lanes);
}
inline Vec largest_each(const Vec (&v)[16]) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = largest(v[i]);
  return Vec::load(lanes);
}

}  // namespace
}  // namespace halfline
