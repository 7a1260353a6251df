// How weights lie in memory: panels of 16 output rows, so that one vector lane is one row.
//
// Quantised formats, one panel (nb = cols / 32 blocks along k):
//
//   [ quants: nb blocks ][ scales: nb blocks ]           padded to 64 bytes
//
//   nibbles (Q4_0, Q4_1, Q4_K), 256 bytes a block: four vectors g = 0..3 of 64 bytes;
//     byte 4r + j of vector g:   low nibble = w[row r][4g + j],  high nibble = w[row r][16 + 4g + j]
//   bytes (Q8_0, Q5_K, Q6_K), 512 bytes a block: eight vectors g = 0..7 of 64 bytes;
//     byte 4r + j of vector g:   w[row r][4g + j]
//   Quants are stored unsigned; the true integer is quant - zero.
//
//   scales per block:   Q4_0, Q8_0   16 fp16 scale                                     (32 bytes)
//                       Q4_1         16 fp16 scale | 16 fp16 min                       (64 bytes)
//   scales per 8 blocks (a super-block of 256):
//                       Q4_K, Q5_K   16 fp16 d | 16 fp16 dmin | 8 x (16 u8 sc | 16 u8 m)   (320 bytes)
//                       Q6_K         16 fp16 d | 8 x (16 i8 first half | 16 i8 second)     (288 bytes)
//
// Float formats: element [k][row r of 16] at index 16k + r, in the file's own type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace halfline {

// The value is GGUF's type number, as in checkpoint.py.
enum class Format : int {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q8_0 = 8,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30,
};

constexpr int kPanelRows = 16;
constexpr int kBlockValues = 32;   // activations are quantised in blocks of this many values
constexpr int kSuperBlocks = 8;    // blocks per K-quant super-block

enum class Scales { plain, with_min, super_with_min, super_halves };

// What the kernels must know of a quantised format at compile time.
template <bool Nibbles, int ZeroShift, bool Small, Scales Kind>
struct QuantFormat {
  static constexpr bool nibbles = Nibbles;
  // The zero point is 2^zero_shift, or 0 when zero_shift is 0.
  static constexpr int zero_shift = ZeroShift;
  // Quants below 64: two products fit in int16 without care for signs.
  static constexpr bool small = Small;
  static constexpr Scales scales = Kind;
  static constexpr bool has_min = Kind == Scales::with_min || Kind == Scales::super_with_min;
  static constexpr bool halves = Kind == Scales::super_halves;
  static constexpr int quant_bytes = Nibbles ? 256 : 512;
};

using Q4_0 = QuantFormat<true, 3, true, Scales::plain>;
using Q4_1 = QuantFormat<true, 0, true, Scales::with_min>;
using Q8_0 = QuantFormat<false, 7, false, Scales::plain>;
using Q4_K = QuantFormat<true, 0, true, Scales::super_with_min>;
using Q5_K = QuantFormat<false, 0, true, Scales::super_with_min>;
using Q6_K = QuantFormat<false, 5, true, Scales::super_halves>;

struct PackedMatrix {
  Format format;
  int rows;
  int cols;
  int panels;
  std::size_t panel_bytes;
  std::size_t scales_offset;   // within a panel; 0 for float formats
  const std::uint8_t* data;    // 64-byte aligned, padding rows are zero

  bool quantised() const {
    return format != Format::F32 && format != Format::F16 && format != Format::BF16;
  }
};

}  // namespace halfline
