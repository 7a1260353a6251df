// Sixteen float lanes in one AVX-512 register; operations as defined in vec_portable.hpp.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace halfline {
namespace {

constexpr int kTileRows = 6;
constexpr int kStreamedRows = 11;
constexpr int kTilePanels = 2;
constexpr int kPackedRows = 48;
constexpr int kFloatRows = 8;
constexpr int kFloatPanels = 2;
constexpr int kQueryTile = 12;
constexpr int kScoreSums = 24;
constexpr int kValueRows = 6;
constexpr int kValueVectors = 4;

struct Vec {
  __m512 v;

  static Vec zero() { return {_mm512_setzero_ps()}; }
  static Vec set(float x) { return {_mm512_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec load_half(const std::uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Vec load_bfloat(const std::uint16_t* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static Vec load_u8(const std::uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  static Vec load_i8(const std::uint8_t* p) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
  }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store_first(float* p, int count) const {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1u), v);
  }
  void store_half(std::uint16_t* p) const {
    const __m256i halves = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), halves);
  }
  void store_i8(std::int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
  }
};

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
inline Vec select(std::uint32_t bits, Vec a, Vec b) {
  return {_mm512_mask_blend_ps(static_cast<__mmask16>(bits), b.v, a.v)};
}
inline Vec exp2_whole(Vec a) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}
inline float sum(Vec a) {
  const __m256 low = _mm512_castps512_ps256(a.v);
  const __m256 eight = _mm256_add_ps(low, _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float largest(Vec a) {
  const __m256 low = _mm512_castps512_ps256(a.v);
  const __m256 eight = _mm256_max_ps(low, _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Sixteen vectors folded alike, each in the order of `sum`; lane i is what becomes of v[i].
template <class F>
inline Vec fold_each(const Vec (&v)[16], F&& both) {
  __m512 two[8], four[4], eight[2];
  // The halves of two vectors side by side, then quarters of four, pairs of eight, and single lanes: at last slot
  // 4i + j stands in lane 4j + i.
  const auto slot = [&](int i) { return v[i % 4 * 4 + i / 4].v; };
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const __m512 a = slot(2 * i), b = slot(2 * i + 1);
    two[i] = both(Vec{_mm512_shuffle_f32x4(a, b, 0x44)}, Vec{_mm512_shuffle_f32x4(a, b, 0xee)}).v;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512 a = two[2 * i], b = two[2 * i + 1];
    four[i] = both(Vec{_mm512_shuffle_f32x4(a, b, 0x88)}, Vec{_mm512_shuffle_f32x4(a, b, 0xdd)}).v;
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512d a = _mm512_castps_pd(four[2 * i]), b = _mm512_castps_pd(four[2 * i + 1]);
    eight[i] = both(Vec{_mm512_castpd_ps(_mm512_unpacklo_pd(a, b))}, Vec{_mm512_castpd_ps(_mm512_unpackhi_pd(a, b))}).v;
  }
  return both(Vec{_mm512_shuffle_ps(eight[0], eight[1], 0x88)}, Vec{_mm512_shuffle_ps(eight[0], eight[1], 0xdd)});
}

inline Vec sum_each(const Vec (&v)[16]) {
  return fold_each(v, [](Vec a, Vec b) { return a + b; });
}
inline Vec largest_each(const Vec (&v)[16]) {
  return fold_each(v, [](Vec a, Vec b) { return max(a, b); });
}

struct Bytes {
  __m512i v;

  static Bytes load(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  void store(std::uint8_t* p) const { _mm512_storeu_si512(p, v); }
  Bytes low_nibbles() const { return {_mm512_and_si512(v, _mm512_set1_epi8(15))}; }
  Bytes high_nibbles() const { return {_mm512_and_si512(_mm512_srli_epi16(v, 4), _mm512_set1_epi8(15))}; }
};

// A sum of integers that starts at kWholeBits is, read as a float, kWhole more than the sum: no conversion. Then
// scale * sum = fma(scale, float, scale * -kWhole), rounded once, as long as |sum| < 2^22 and the last product is exact.
// It is: block scales have at most 19 significant bits (fp16 times a byte), kWhole has 2.
constexpr std::int32_t kWholeBits = 0x4b400000;
constexpr float kWhole = 12582912.0f;   // 1.5 * 2^23

struct WholeScale {
  Vec scale, rest;
  explicit WholeScale(Vec x) : scale(x), rest(x * Vec::set(-kWhole)) {}
  Vec times(__m512i whole) const { return fma(scale, {_mm512_castsi512_ps(whole)}, rest); }
};

template <class Format>
struct Dot {
  __m512i v;

  void start(std::int32_t negated_sum) {
    v = _mm512_set1_epi32(kWholeBits);
    if constexpr (Format::zero_shift != 0) {
      v = _mm512_add_epi32(v, _mm512_slli_epi32(_mm512_set1_epi32(negated_sum), Format::zero_shift));
    }
  }
  void add(const Bytes& weights, const std::int8_t* four) {
    std::int32_t word;
    std::memcpy(&word, four, 4);
    v = _mm512_dpbusd_epi32(v, weights.v, _mm512_set1_epi32(word));
  }
  Vec times(const WholeScale& by) const { return by.times(v); }
};

}  // namespace
}  // namespace halfline
