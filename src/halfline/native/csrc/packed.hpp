// How weights lie in memory: panels of 16 output rows, so that one vector lane is one row.
//
// Quantised formats: a panel is one stream of groups along k, each the quants of a few blocks of 32 and their scales.
// Together, because a lone row streams every panel once: with all scales behind all quants the two streams of a panel
// were both too short for the hardware to run ahead of.
//
//   [ quants: block 0, 1 .. | scales ] [ quants | scales ] ...           every part a multiple of 64 bytes
//
//   nibbles (Q4_0, Q4_1, Q4_K), 256 bytes a block: four vectors g = 0..3 of 64 bytes;
//     byte 4r + j of vector g:   low nibble = w[row r][4g + j],  high nibble = w[row r][16 + 4g + j]
//   bytes (all others), 512 bytes a block: eight vectors g = 0..7 of 64 bytes;
//     byte 4r + j of vector g:   w[row r][4g + j]
//   Quants are stored unsigned; the true integer is quant - zero.
//
//               blocks   scales of a group
//   plain            2   2 x (16 fp16 scale)                                            Q4_0, Q5_0, Q8_0
//   with_min         1   16 fp16 scale | 16 fp16 min                                    Q4_1, Q5_1
//   super_with_min   8   16 fp16 d | 16 fp16 dmin | 8 x (16 u8 sc | 16 u8 m)            Q4_K, Q5_K
//   super_halves     8   16 fp16 d | 8 x (16 i8 first half | 16 i8 second) | 32 unused  Q6_K
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
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30,
};

constexpr int kPanelRows = 16;
constexpr int kBlockValues = 32;   // activations are quantised in blocks of this many values

enum class Scales { plain, with_min, super_with_min, super_halves };

constexpr int group_blocks(Scales kind) { return kind == Scales::plain ? 2 : kind == Scales::with_min ? 1 : 8; }
constexpr int scale_bytes(Scales kind) { return kind == Scales::plain || kind == Scales::with_min ? 64 : 320; }

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
  static constexpr int group = group_blocks(Kind);
  static constexpr int group_bytes = group * quant_bytes + scale_bytes(Kind);
};

using Q4_0 = QuantFormat<true, 3, true, Scales::plain>;
using Q4_1 = QuantFormat<true, 0, true, Scales::with_min>;
using Q5_0 = QuantFormat<false, 4, true, Scales::plain>;
using Q5_1 = QuantFormat<false, 0, true, Scales::with_min>;
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
  const std::uint8_t* data;    // 64-byte aligned, padding rows are zero

  // What is left of it without the first panels.
  PackedMatrix from_panel(int first) const {
    return {format, rows - first * kPanelRows, cols, panels - first, panel_bytes,
            data + static_cast<std::size_t>(first) * panel_bytes};
  }

  bool quantised() const {
    return format != Format::F32 && format != Format::F16 && format != Format::BF16;
  }
};

}  // namespace halfline
