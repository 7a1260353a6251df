// Writing KV: one place in fp16, and a whole block from fp16 to int8.
#pragma once

#include <cstdint>

#include "../kernels.hpp"
#include "rows.hpp"

namespace halfline {
namespace {

inline void store_place(const float* key, const float* value, int head_dim, std::uint16_t* keys,
                        std::uint16_t* values, int slot) {
  std::uint16_t column[16];
  for (int i = 0; i < head_dim; i += 16) {
    Vec::load(key + i).store_half(column);
    for (int j = 0; j < 16; ++j) keys[(i + j) * kSlots + slot] = column[j];
    Vec::load(value + i).store_half(values + slot * head_dim + i);
  }
}

// What to multiply by so that `highest` becomes 127. All zeros stay zeros; the smallest fp16 number is 6e-8.
inline float int8_factor(float highest) { return highest > 0.0f ? 127.0f / highest : 0.0f; }

// Whole numbers within [-127, 127]. A value that is not finite becomes some number: its scale is not finite either.
inline void store_int8(Vec x, std::uint8_t* bytes) {
  nearest(min(max(x, Vec::set(-127.0f)), Vec::set(127.0f))).store_i8(reinterpret_cast<std::int8_t*>(bytes));
}

// `count` vectors at a distance of 16 values, with one scale for all: highest magnitude / 127.
inline float quantise_together(const std::uint16_t* halves, int count, std::uint8_t* bytes) {
  Vec tallest = Vec::zero();
  for (int i = 0; i < count; ++i) tallest = max(abs(Vec::load_half(halves + 16 * i)), tallest);
  const float highest = largest(tallest);
  const Vec factor = Vec::set(int8_factor(highest));
  for (int i = 0; i < count; ++i) store_int8(Vec::load_half(halves + 16 * i) * factor, bytes + 16 * i);
  return highest * (1.0f / 127.0f);
}

// K has one scale per dimension, over all places, since some dimensions are large at every place; V one per place.
inline void quantise_block_kv(const std::uint16_t* keys, const std::uint16_t* values, int head_dim,
                              std::uint8_t* block) {
  std::uint8_t* value_bytes = block + kSlots * head_dim;
  auto* scales = reinterpret_cast<float*>(value_bytes + kSlots * head_dim);
  for (int d = 0; d < head_dim; ++d) scales[d] = quantise_together(keys + d * kSlots, 1, block + d * kSlots);
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::int64_t row = std::int64_t{slot} * head_dim;
    scales[head_dim + slot] = quantise_together(values + row, head_dim / 16, value_bytes + row);
  }
}

}  // namespace
}  // namespace halfline
