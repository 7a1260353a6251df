// Sixteen float lanes in plain C++: the meaning of every vector operation, and what arm64 runs.
//
// The other vec_*.hpp files offer the same names with the same roundings. Each is included by one translation
// unit only and lives in an anonymous namespace, so that no code built for one machine is linked into another's.
#pragma once

#include <cstdint>
#include <cstring>

namespace halfline {
namespace {

constexpr int kTileRows = 4;      // activation rows per quantised tile
constexpr int kStreamedRows = 4;  // up to so many rows, of one or two tiles, go through one panel after the other
constexpr int kTilePanels = 1;    // panels per tile when several tiles of rows are multiplied
constexpr int kPackedRows = 4;    // up to so many rows it does not pay to unpack weights first
constexpr int kFloatRows = 4;     // the same for float weights
constexpr int kFloatPanels = 1;
constexpr int kQueryTile = 4;     // query vectors whose scores are computed together
constexpr int kScoreSums = 4;     // vectors of scores that are computed together
constexpr int kValueRows = 2;     // query vectors that share one pass over V
constexpr int kValueVectors = 2;  // vectors of head_dim in such a pass

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  float value;
  if (magnitude >= 0x7c00u) {  // infinity, NaN
    const std::uint32_t bits = sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13);
    std::memcpy(&value, &bits, 4);
  } else if (magnitude >= 0x0400u) {
    const std::uint32_t bits = sign | ((magnitude << 13) + 0x38000000u);
    std::memcpy(&value, &bits, 4);
  } else {  // subnormal: an integer times 2^-24
    value = static_cast<float>(magnitude) * 0x1p-24f;
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits |= sign;
    std::memcpy(&value, &bits, 4);
  }
  return value;
}

// Round to nearest, ties to even.
inline std::uint16_t float_to_half(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const std::uint16_t sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 rounds to infinity
  if (magnitude >= 0x38800000u) {
    const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
  // Subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low mantissa bits.
  float positive;
  std::memcpy(&positive, &magnitude, 4);
  positive += 0.5f;
  std::memcpy(&bits, &positive, 4);
  return static_cast<std::uint16_t>(sign | (bits - 0x3f000000u));
}

// Four lanes: a vector type of the compiler's own, which it maps to whatever the machine has.
using Quad = float __attribute__((vector_size(16)));
using Words = std::int32_t __attribute__((vector_size(16)));

struct Vec {
  Quad part[4];

  template <class F>
  static Vec parts(F function) {
    return {{function(0), function(1), function(2), function(3)}};
  }
  template <class F>
  static Vec lanes(F function) {
    float lane[16];
    for (int i = 0; i < 16; ++i) lane[i] = function(i);
    return load(lane);
  }
  static Vec zero() { return set(0.0f); }
  static Vec set(float x) { return parts([=](int) { return Quad{x, x, x, x}; }); }
  static Vec load(const float* p) {
    Vec result;
    std::memcpy(&result, p, sizeof result);
    return result;
  }
  static Vec load_half(const std::uint16_t* p) { return lanes([=](int i) { return half_to_float(p[i]); }); }
  static Vec load_bfloat(const std::uint16_t* p) {
    return lanes([=](int i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(p[i]) << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      return value;
    });
  }
  static Vec load_u8(const std::uint8_t* p) { return lanes([=](int i) { return static_cast<float>(p[i]); }); }
  static Vec load_i8(const std::uint8_t* p) {
    return lanes([=](int i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
  }
  void store(float* p) const { std::memcpy(p, part, sizeof part); }
  void store_first(float* p, int count) const { std::memcpy(p, part, sizeof(float) * static_cast<unsigned>(count)); }
  void store_half(std::uint16_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = float_to_half(part[i / 4][i % 4]);
  }
  // Lanes are whole numbers within [-127, 127].
  void store_i8(std::int8_t* p) const {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(static_cast<int>(part[i / 4][i % 4]));
  }
};

inline Vec operator+(Vec a, Vec b) { return Vec::parts([&](int i) { return a.part[i] + b.part[i]; }); }
inline Vec operator-(Vec a, Vec b) { return Vec::parts([&](int i) { return a.part[i] - b.part[i]; }); }
inline Vec operator*(Vec a, Vec b) { return Vec::parts([&](int i) { return a.part[i] * b.part[i]; }); }
inline Vec operator/(Vec a, Vec b) { return Vec::parts([&](int i) { return a.part[i] / b.part[i]; }); }

// One fused operation per lane. Without such an instruction it is a call into the C library, as exact and slow.
#ifdef __FP_FAST_FMAF
inline Quad fma_quad(Quad a, Quad b, Quad c) {
  Quad result;
  for (int i = 0; i < 4; ++i) result[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return result;
}
#else
[[gnu::noinline]] Quad fma_quad(Quad a, Quad b, Quad c) {
  for (int i = 0; i < 4; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
#endif
// a * b + c and c - a * b, rounded once.
inline Vec fma(Vec a, Vec b, Vec c) {
  return Vec::parts([&](int i) { return fma_quad(a.part[i], b.part[i], c.part[i]); });
}
inline Vec fnma(Vec a, Vec b, Vec c) {
  return Vec::parts([&](int i) { return fma_quad(-a.part[i], b.part[i], c.part[i]); });
}
inline Vec max(Vec a, Vec b) {
  return Vec::parts([&](int i) { return a.part[i] > b.part[i] ? a.part[i] : b.part[i]; });
}
inline Vec min(Vec a, Vec b) {
  return Vec::parts([&](int i) { return a.part[i] < b.part[i] ? a.part[i] : b.part[i]; });
}
inline Vec abs(Vec a) {
  return Vec::parts([&](int i) { return reinterpret_cast<Quad>(reinterpret_cast<Words>(a.part[i]) & 0x7fffffff); });
}
// Lane i of a where bit i is set, of b elsewhere.
inline Vec select(std::uint32_t bits, Vec a, Vec b) {
  const Words each = {1, 2, 4, 8};
  return Vec::parts([&](int i) {
    const Words set = (each & static_cast<std::int32_t>(bits >> (4 * i))) != 0;
    return set ? a.part[i] : b.part[i];
  });
}
// 2^a for lanes that hold whole numbers in [-126, 127].
inline Vec exp2_whole(Vec a) {
  return Vec::parts([&](int i) {
    return reinterpret_cast<Quad>((__builtin_convertvector(a.part[i], Words) + 127) << 23);
  });
}
// The fixed tree: lanes 8 apart, then 4, 2 and 1.
inline float sum(Vec a) {
  const Quad four = (a.part[0] + a.part[2]) + (a.part[1] + a.part[3]);
  return (four[0] + four[2]) + (four[1] + four[3]);
}
inline float largest(Vec a) {
  const auto larger = [](float x, float y) { return x > y ? x : y; };
  const Vec pair = max(a, {{a.part[2], a.part[3], a.part[2], a.part[3]}});
  const Quad four = pair.part[0] > pair.part[1] ? pair.part[0] : pair.part[1];
  return larger(larger(four[0], four[2]), larger(four[1], four[3]));
}

// 64 quants: 16 rows of four consecutive k.
struct Bytes {
  std::uint8_t byte[64];

  static Bytes load(const std::uint8_t* p) {
    Bytes result;
    std::memcpy(result.byte, p, 64);
    return result;
  }
  void store(std::uint8_t* p) const { std::memcpy(p, byte, 64); }
  Bytes low_nibbles() const {
    Bytes result;
    for (int i = 0; i < 64; ++i) result.byte[i] = byte[i] & 15;
    return result;
  }
  Bytes high_nibbles() const {
    Bytes result;
    for (int i = 0; i < 64; ++i) result.byte[i] = byte[i] >> 4;
    return result;
  }
};

// What integers are multiplied with; a path may keep more beside the scale.
struct WholeScale {
  Vec scale;
  explicit WholeScale(Vec x) : scale(x) {}
};

// Exact integer dot products of 16 rows with one activation row, over one block or half of one.
template <class Format>
struct Dot {
  std::int32_t lane[16];

  // `negated_sum` is minus the sum of the activations that will be added: it takes the zero point off.
  void start(std::int32_t negated_sum) {
    const std::int32_t first = Format::zero_shift ? negated_sum * (1 << Format::zero_shift) : 0;
    for (int i = 0; i < 16; ++i) lane[i] = first;
  }
  void add(const Bytes& weights, const std::int8_t* four) { add_products(lane, weights, four); }
  // Out of line: unrolled into every tile it would fill the compiler's day.
  [[gnu::noinline]] static void add_products(std::int32_t* lane, const Bytes& weights, const std::int8_t* four) {
    for (int i = 0; i < 16; ++i) {
      const std::uint8_t* row = weights.byte + 4 * i;
      lane[i] += row[0] * four[0] + row[1] * four[1] + row[2] * four[2] + row[3] * four[3];
    }
  }
  // scale * dot, rounded once.
  Vec times(const WholeScale& by) const {
    return by.scale * Vec::lanes([&](int i) { return static_cast<float>(lane[i]); });
  }
};

}  // namespace
}  // namespace halfline
