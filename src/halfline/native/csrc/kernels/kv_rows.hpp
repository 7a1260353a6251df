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

// One scale per place: highest magnitude / 127. A lane of K's vectors is a place.
inline void quantise_block_kv(const std::uint16_t* keys, const std::uint16_t* values, int head_dim,
                              std::uint8_t* block) {
  std::uint8_t* value_bytes = block + kSlots * head_dim;
  auto* scales = reinterpret_cast<float*>(block + 2 * kSlots * head_dim);
  Vec highest = Vec::zero();
  for (int d = 0; d < head_dim; ++d) highest = max(abs(Vec::load_half(keys + d * kSlots)), highest);
  (highest * Vec::set(1.0f / 127.0f)).store(scales);
  float factors[kSlots];
  highest.store(factors);
  for (float& factor : factors) factor = int8_factor(factor);
  const Vec factor = Vec::load(factors);
  for (int d = 0; d < head_dim; ++d) {
    store_int8(Vec::load_half(keys + d * kSlots) * factor, block + d * kSlots);
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::uint16_t* value = values + slot * head_dim;
    Vec tallest = Vec::zero();
    for (int d = 0; d < head_dim; d += 16) tallest = max(abs(Vec::load_half(value + d)), tallest);
    const float amax = largest(tallest);
    scales[kSlots + slot] = amax * (1.0f / 127.0f);
    const Vec inverse = Vec::set(int8_factor(amax));
    for (int d = 0; d < head_dim; d += 16) {
      store_int8(Vec::load_half(value + d) * inverse, value_bytes + slot * head_dim + d);
    }
  }
}

}  // namespace
}  // namespace halfline
