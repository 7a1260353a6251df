// Sixteen float lanes in two AVX2 registers; operations as defined in vec_portable.hpp.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace halfline {
namespace {

constexpr int kTileRows = 4;
constexpr int kStreamedRows = 4;
constexpr int kTilePanels = 1;
constexpr int kPackedRows = 4;
constexpr int kFloatRows = 4;
constexpr int kFloatPanels = 1;
constexpr int kQueryTile = 4;
constexpr int kScoreSums = 4;
constexpr int kValueRows = 3;
constexpr int kValueVectors = 2;

struct Vec {
  __m256 a;  // lanes 0..7
  __m256 b;  // lanes 8..15

  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vec load_half(const std::uint16_t* p) {
    const auto* words = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(words)), _mm256_cvtph_ps(_mm_loadu_si128(words + 1))};
  }
  static Vec load_bfloat(const std::uint16_t* p) {
    const auto widen = [](const std::uint16_t* eight) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(eight));
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    };
    return {widen(p), widen(p + 8)};
  }
  static Vec load_u8(const std::uint8_t* p) {
    const auto widen = [](const std::uint8_t* eight) {
      return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight))));
    };
    return {widen(p), widen(p + 8)};
  }
  static Vec load_i8(const std::uint8_t* p) {
    const auto widen = [](const std::uint8_t* eight) {
      return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight))));
    };
    return {widen(p), widen(p + 8)};
  }
  void store(float* p) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }
  void store_first(float* p, int count) const {
    alignas(32) float lanes[16];
    store(lanes);
    for (int i = 0; i < count; ++i) p[i] = lanes[i];
  }
  void store_half(std::uint16_t* p) const {
    constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    auto* words = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(words, _mm256_cvtps_ph(a, nearest));
    _mm_storeu_si128(words + 1, _mm256_cvtps_ph(b, nearest));
  }
  void store_i8(std::int8_t* p) const {
    // packs works within 128-bit halves: the permutation brings the 16 words back in order.
    const __m256i words = _mm256_permute4x64_epi64(
        _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b)), 0b11011000);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }
};

inline Vec operator+(Vec x, Vec y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline Vec operator-(Vec x, Vec y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline Vec operator*(Vec x, Vec y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline Vec operator/(Vec x, Vec y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline Vec fma(Vec x, Vec y, Vec z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
inline Vec fnma(Vec x, Vec y, Vec z) { return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)}; }
inline Vec max(Vec x, Vec y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline Vec min(Vec x, Vec y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline Vec abs(Vec x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline Vec select(std::uint32_t bits, Vec x, Vec y) {
  const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const auto mask = [&](std::uint32_t eight) {
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(eight)), each);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, each));
  };
  return {_mm256_blendv_ps(y.a, x.a, mask(bits & 255u)), _mm256_blendv_ps(y.b, x.b, mask(bits >> 8))};
}
inline Vec exp2_whole(Vec x) {
  const auto shift = [](__m256 eight) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(eight), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  };
  return {shift(x.a), shift(x.b)};
}
inline float sum(Vec x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
inline float largest(Vec x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

struct Bytes {
  __m256i a;  // rows 0..7
  __m256i b;  // rows 8..15

  static Bytes load(const std::uint8_t* p) {
    const auto* words = reinterpret_cast<const __m256i*>(p);
    return {_mm256_loadu_si256(words), _mm256_loadu_si256(words + 1)};
  }
  void store(std::uint8_t* p) const {
    auto* words = reinterpret_cast<__m256i*>(p);
    _mm256_storeu_si256(words, a);
    _mm256_storeu_si256(words + 1, b);
  }
  Bytes low_nibbles() const {
    const __m256i low = _mm256_set1_epi8(15);
    return {_mm256_and_si256(a, low), _mm256_and_si256(b, low)};
  }
  Bytes high_nibbles() const {
    const __m256i low = _mm256_set1_epi8(15);
    return {_mm256_and_si256(_mm256_srli_epi16(a, 4), low), _mm256_and_si256(_mm256_srli_epi16(b, 4), low)};
  }
};

inline __m256i broadcast_four(const std::int8_t* four) {
  std::int32_t word;
  std::memcpy(&word, four, 4);
  return _mm256_set1_epi32(word);
}

struct WholeScale {
  Vec scale;
  explicit WholeScale(Vec x) : scale(x) {}
};

// Nibbles: a block fits in int16 lanes, since 16 products of at most 15 * 127 stay below 32,768.
template <class Format, bool Nibbles = Format::nibbles>
struct Dot {
  __m256i a;
  __m256i b;
  std::int32_t negated_sum;

  void start(std::int32_t sum) {
    a = b = _mm256_setzero_si256();
    negated_sum = sum;
  }
  void add(const Bytes& weights, const std::int8_t* four) {
    const __m256i x = broadcast_four(four);
    a = _mm256_add_epi16(a, _mm256_maddubs_epi16(weights.a, x));
    b = _mm256_add_epi16(b, _mm256_maddubs_epi16(weights.b, x));
  }
  Vec times(const WholeScale& by) const {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i low = _mm256_madd_epi16(a, ones), high = _mm256_madd_epi16(b, ones);
    if constexpr (Format::zero_shift != 0) {
      const __m256i zero = _mm256_slli_epi32(_mm256_set1_epi32(negated_sum), Format::zero_shift);
      low = _mm256_add_epi32(low, zero);
      high = _mm256_add_epi32(high, zero);
    }
    return by.scale * Vec{_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)};
  }
};

// Bytes: int32 lanes. Quants of 64 and more would saturate the int16 pairs, so their sign moves to the
// activation: |w| <= 128 and two products of 128 * 127 stay below 32,768.
template <class Format>
struct Dot<Format, false> {
  __m256i a;
  __m256i b;

  void start(std::int32_t negated_sum) {
    if constexpr (Format::small && Format::zero_shift != 0) {
      a = b = _mm256_slli_epi32(_mm256_set1_epi32(negated_sum), Format::zero_shift);
    } else {
      a = b = _mm256_setzero_si256();
    }
  }
  static __m256i products(__m256i weights, __m256i x) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (Format::small) {
      return _mm256_madd_epi16(_mm256_maddubs_epi16(weights, x), ones);
    } else {
      const __m256i centred = _mm256_sub_epi8(weights, _mm256_set1_epi8(static_cast<char>(1 << Format::zero_shift)));
      return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(centred), _mm256_sign_epi8(x, centred)), ones);
    }
  }
  void add(const Bytes& weights, const std::int8_t* four) {
    const __m256i x = broadcast_four(four);
    a = _mm256_add_epi32(a, products(weights.a, x));
    b = _mm256_add_epi32(b, products(weights.b, x));
  }
  Vec times(const WholeScale& by) const { return by.scale * Vec{_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)}; }
};

}  // namespace
}  // namespace halfline
