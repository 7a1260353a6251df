// Operations on single rows: norms, activation functions, rotation, and the largest logits.
#pragma once

#include <cmath>

#include "../kernels.hpp"

namespace halfline {
namespace {

// Each x becomes e^x, for x in [-87, 88], clamped outside; about one unit in the last place. 0 gives exactly 1. Several at
// once, step by step: one alone is a chain of fifteen operations that wait for each other.
template <int Count>
inline void exp_each(Vec (&x)[Count]) {
  constexpr float coefficients[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                                    5.0000001201e-1f};
  const Vec shift = Vec::set(12582912.0f);  // 1.5 * 2^23 rounds to a whole number
  Vec whole[Count], r[Count], p[Count];
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) x[i] = max(min(x[i], Vec::set(88.0f)), Vec::set(-87.0f));
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) whole[i] = fma(x[i], Vec::set(1.44269504f), shift) - shift;
  // ln 2 in two parts: the first is short, so that whole * first is exact.
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) r[i] = fnma(whole[i], Vec::set(0.693359375f), x[i]);
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) r[i] = fnma(whole[i], Vec::set(-2.12194440e-4f), r[i]);
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) p[i] = Vec::set(1.9875691500e-4f);
#pragma GCC unroll 5
  for (int c = 0; c < 5; ++c) {
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) p[i] = fma(p[i], r[i], Vec::set(coefficients[c]));
  }
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) p[i] = fma(p[i] * r[i], r[i], r[i]) + Vec::set(1.0f);
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) x[i] = p[i] * exp2_whole(whole[i]);
}

inline Vec exp_of(Vec x) {
  Vec each[1] = {x};
  exp_each(each);
  return each[0];
}

// The nearest whole number, ties to even, of lanes well below 2^22: adding 1.5 * 2^23 leaves no bits behind the point.
inline Vec nearest(Vec x) {
  const Vec shift = Vec::set(12582912.0f);
  return (x + shift) - shift;
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
    Vec centred = load_first(x + i, count) - centre;
    if (count < 16) centred = select((1u << count) - 1u, centred, Vec::zero());
    return fma(centred, centred, partial);
  });
  const Vec inverse = Vec::set(1.0f / __builtin_sqrtf(squares / static_cast<float>(n) + weights.eps));
  const auto normed = [&](int i, int count) {
    const Vec scaled = (load_first(x + i, count) - centre) * inverse * load_first(weights.weight + i, count);
    return weights.bias ? scaled + load_first(weights.bias + i, count) : scaled;
  };
  int i = 0;
  for (; i + 16 <= n; i += 16) normed(i, 16).store(output + i);
  if (i < n) normed(i, n - i).store_first(output + i, n - i);
}

template <int Count>
inline void gate_vectors(const float* gate, const float* up, float* output) {
  Vec powers[Count];
#pragma GCC unroll 4
  for (int i = 0; i < Count; ++i) powers[i] = Vec::zero() - Vec::load(gate + 16 * i);
  exp_each(powers);
#pragma GCC unroll 4
  for (int i = 0; i < Count; ++i) {
    (Vec::load(gate + 16 * i) / (Vec::set(1.0f) + powers[i]) * Vec::load(up + 16 * i)).store(output + 16 * i);
  }
}

inline void gate_row(const float* gate, const float* up, int n, float* output) {
  constexpr int kTogether = 4;
  int i = 0;
  for (; i + 16 * kTogether <= n; i += 16 * kTogether) gate_vectors<kTogether>(gate + i, up + i, output + i);
  for (; i < n; i += 16) gate_vectors<1>(gate + i, up + i, output + i);
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

inline void top_row(const float* logits, int n, int count, std::int32_t* ids, float* top, double* log_total) {
  int kept = 0;
  // Only what is larger passes an earlier id.
  const auto offer = [&](int id) {
    if (kept == count && !(logits[id] > top[count - 1])) return;
    int at = kept < count ? kept++ : count - 1;
    for (; at > 0 && logits[id] > top[at - 1]; --at) {
      top[at] = top[at - 1];
      ids[at] = ids[at - 1];
    }
    top[at] = logits[id];
    ids[at] = id;
  };
  Vec nothing = Vec::zero();   // stays zero, unless a logit is not finite
  for (int i = 0; i < n; i += 16) {
    const int lanes = n - i < 16 ? n - i : 16;
    const Vec v = load_first(logits + i, lanes);
    nothing = nothing + (v - v);
    if (kept == count && lanes == 16 && !(largest(v) > top[count - 1])) continue;
    for (int j = 0; j < lanes; ++j) offer(i + j);
  }
  // Floats within 256 values, doubles between: a vocabulary has too many terms for floats alone.
  const Vec peak = Vec::set(top[0]);
  double total = 0.0;
  for (int first = 0; first < n; first += 256) {
    const int terms = n - first < 256 ? n - first : 256;
    total += sum_of(terms, [&](int i, int lanes, Vec partial) {
      const Vec power = exp_of(load_first(logits + first + i, lanes) - peak);
      return partial + select((1u << lanes) - 1u, power, Vec::zero());
    });
  }
  *log_total = sum(nothing) == 0.0f ? top[0] + std::log(total) : NAN;
}

inline void peaks_of_panels(const float* logits, int n, float* peaks) {
  int i = 0;
  for (; i + kPanelRows <= n; i += kPanelRows) *peaks++ = largest(Vec::load(logits + i));
  if (i == n) return;
  *peaks = logits[i];
  for (; i < n; ++i) *peaks = logits[i] > *peaks ? logits[i] : *peaks;
}

}  // namespace
}  // namespace halfline
