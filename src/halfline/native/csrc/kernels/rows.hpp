// Operations on single rows: norms, activation functions, rotation, and writing KV.
#pragma once

#include "../kernels.hpp"

namespace halfline {
namespace {

// e^x for x in [-87, 88], clamped outside; about one unit in the last place. exp_of(0) is exactly 1.
inline Vec exp_of(Vec x) {
  x = max(min(x, Vec::set(88.0f)), Vec::set(-87.0f));
  const Vec shift = Vec::set(12582912.0f);  // 1.5 * 2^23 rounds to a whole number
  const Vec whole = fma(x, Vec::set(1.44269504f), shift) - shift;
  // ln 2 in two parts: the first is short, so that whole * first is exact.
  const Vec r = fnma(whole, Vec::set(-2.12194440e-4f), fnma(whole, Vec::set(0.693359375f), x));
  Vec p = Vec::set(1.9875691500e-4f);
  p = fma(p, r, Vec::set(1.3981999507e-3f));
  p = fma(p, r, Vec::set(8.3334519073e-3f));
  p = fma(p, r, Vec::set(4.1665795894e-2f));
  p = fma(p, r, Vec::set(1.6666665459e-1f));
  p = fma(p, r, Vec::set(5.0000001201e-1f));
  p = fma(p * r, r, r) + Vec::set(1.0f);
  return p * exp2_whole(whole);
}

// Sums over a row keep 16 partial sums, element i in partial sum i % 16, then the fixed tree.
template <class F>
inline float sum_of(int n, F term) {
  Vec partial = Vec::zero();
  int i = 0;
  for (; i + 16 <= n; i += 16) partial = term(i, 16, partial);
  if (i < n) partial = term(i, n - i, partial);
  return sum(partial);
}

// The next 16 elements of a row, or the last few filled up with zeros.
inline Vec load_first(const float* p, int count) {
  if (count == 16) return Vec::load(p);
  float lanes[16] = {};
  for (int i = 0; i < count; ++i) lanes[i] = p[i];
  return Vec::load(lanes);
}

inline void norm_row(const float* x, const NormWeights& weights, int n, float* output) {
  float mean = 0.0f;
  if (weights.subtract_mean) {
    mean = sum_of(n, [&](int i, int count, Vec partial) { return partial + load_first(x + i, count); }) /
           static_cast<float>(n);
  }
  const Vec centre = Vec::set(mean);
  const float squares = sum_of(n, [&](int i, int count, Vec partial) {
    const Vec centred = select((1u << count) - 1u, load_first(x + i, count) - centre, Vec::zero());
    return fma(centred, centred, partial);
  });
  const Vec inverse = Vec::set(1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + weights.eps));
  for (int i = 0; i < n; i += 16) {
    const int count = n - i < 16 ? n - i : 16;
    Vec normed = (load_first(x + i, count) - centre) * inverse * load_first(weights.weight + i, count);
    if (weights.bias) normed = normed + load_first(weights.bias + i, count);
    normed.store_first(output + i, count);
  }
}

inline void gate_row(const float* gate, const float* up, int n, float* output) {
  const Vec one = Vec::set(1.0f);
  for (int i = 0; i < n; i += 16) {
    const Vec g = Vec::load(gate + i);
    (g / (one + exp_of(Vec::zero() - g)) * Vec::load(up + i)).store(output + i);
  }
}

// x / (1 + e^-2u) is x/2 (1 + tanh u).
inline void gelu_row(const float* x, int n, float* output) {
  const Vec one = Vec::set(1.0f);
  for (int i = 0; i < n; i += 16) {
    const Vec v = Vec::load(x + i);
    const Vec cubic = fma(v * v * Vec::set(0.044715f), v, v);
    (v / (one + exp_of(cubic * Vec::set(-1.5957691216f)))).store(output + i);
  }
}

inline void rotate_head(float* head, const float* cosines, const float* sines, int half, int head_dim, float scale) {
  for (int i = 0; i < half; ++i) {
    const float first = head[i], second = head[i + half];
    head[i] = __builtin_fmaf(first, cosines[i], -(second * sines[i])) * scale;
    head[i + half] = __builtin_fmaf(second, cosines[i], first * sines[i]) * scale;
  }
  for (int i = 2 * half; i < head_dim; ++i) head[i] *= scale;
}

inline void store_place(const float* key, const float* value, int head_dim, std::uint16_t* block, int slot) {
  std::uint16_t* values = block + head_dim * kSlots + slot * head_dim;
  std::uint16_t column[16];
  for (int i = 0; i < head_dim; i += 16) {
    Vec::load(key + i).store_half(column);
    for (int j = 0; j < 16; ++j) block[(i + j) * kSlots + slot] = column[j];
    Vec::load(value + i).store_half(values + i);
  }
}

}  // namespace
}  // namespace halfline
