// Quantising activations with AVX-512, sixteen blocks of 32 at a time: bitwise what linear_quant.hpp defines.
//
// One block alone is all waiting: the largest of 32 numbers, two divisions, two sums. Here lane i of a vector belongs
// to block i, and what has to be found within each block (a largest, two sums) is found by transposing on the way.
// Largest numbers and sums of integers are exact in any order. The sixteen are neighbours in their tile, so their results
// lie side by side, or blocks of one row of several, whose results are put in their places afterwards.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "../kernels.hpp"
#include "linear_quant.hpp"

namespace halfline {
namespace {

constexpr int kTogether = 16;   // blocks, one per lane

// Sums of the first and second halves of sixteen blocks, lane i of block i. Of bytes[p] the blocks are 2p and 2p + 1.
struct HalfSums {
  __m512i first, second;
};

inline HalfSums sums_of_halves(const __m512i (&bytes)[8]) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i fours[8], two[4], sums[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) fours[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, bytes[i]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    two[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(fours[2 * i], fours[2 * i + 1]),
                              _mm512_unpackhi_epi32(fours[2 * i], fours[2 * i + 1]));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    sums[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(two[2 * i], two[2 * i + 1]),
                               _mm512_unpackhi_epi64(two[2 * i], two[2 * i + 1]));
  }
  // Lane 4h + p of sums[i]: half h of two blocks, pair 4i + p. Halves 0 and 2 are first ones.
  const __m512i first = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(4));
  return {_mm512_permutex2var_epi32(sums[0], first, sums[1]), _mm512_permutex2var_epi32(sums[0], second, sums[1])};
}

// Sixteen blocks of 32 floats; all can be read.
using Blocks = const float* [kTogether];

// largest / 127 and 127 / largest, each rounded by itself; zero where a block is.
struct BlockRanges {
  alignas(64) float scales[kTogether], inverses[kTogether];
};

inline void find_ranges(const Blocks& block, BlockRanges& ranges) {
  Vec magnitudes[kTogether];
#pragma GCC unroll 16
  for (int i = 0; i < kTogether; ++i) {
    constexpr int kLargestMagnitude = 0b1011;
    magnitudes[i] = {_mm512_range_ps(_mm512_loadu_ps(block[i]), _mm512_loadu_ps(block[i] + 16), kLargestMagnitude)};
  }
  const __m512 amax = largest_each(magnitudes).v, most = _mm512_set1_ps(127.0f);
  // See quantise_block.
  const __mmask16 lives = _mm512_cmp_ps_mask(amax, _mm512_set1_ps(1e-30f), _CMP_GT_OQ);
  _mm512_store_ps(ranges.scales, _mm512_maskz_div_ps(lives, amax, most));
  _mm512_store_ps(ranges.inverses, _mm512_maskz_div_ps(lives, most, amax));
}

// Rounds the first `count` of them, to the places from `at` on.
inline void round_blocks(const Blocks& block, const BlockRanges& ranges, int count, const QuantRows& output,
                         std::int64_t at) {
  // Four vectors packed lane by lane are four bytes of each in turn; this puts them in order.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  __m512i bytes[8];
#pragma GCC unroll 8
  for (int pair = 0; pair < 8; ++pair) {
    const auto whole = [&](int i, int half) {
      // To the nearest, ties to even, as `nearest` does.
      return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(block[i] + half * 16), _mm512_set1_ps(ranges.inverses[i])));
    };
    const int i = 2 * pair;
    const __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(whole(i, 0), whole(i, 1)),
                                              _mm512_packs_epi32(whole(i + 1, 0), whole(i + 1, 1)));
    bytes[pair] = _mm512_permutexvar_epi32(order, packed);
    std::int8_t* quants = output.quants + (at + i) * kBlockValues;
    if (i + 1 < count) {
      _mm512_storeu_si512(quants, bytes[pair]);
    } else if (i < count) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(quants), _mm512_castsi512_si256(bytes[pair]));
    }
  }
  const HalfSums halves = sums_of_halves(bytes);
  const __m512i whole = _mm512_add_epi32(halves.first, halves.second), none = _mm512_setzero_si512();
  const __m512i negated = _mm512_sub_epi32(none, whole), negated_first = _mm512_sub_epi32(none, halves.first);
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __m512 scales = _mm512_load_ps(ranges.scales);
  const std::uint32_t kept = (1u << count) - 1u;
  const std::uint64_t kept_pairs = (std::uint64_t{1} << (2 * count)) - 1u;
  _mm512_mask_storeu_ps(output.scales + at, static_cast<__mmask16>(kept), scales);
  _mm512_mask_storeu_ps(output.scaled_sums + at, static_cast<__mmask16>(kept),
                        _mm512_mul_ps(scales, _mm512_cvtepi32_ps(whole)));
  std::int32_t* sums = output.negated_sums + 2 * at;
  _mm512_mask_storeu_epi32(sums, static_cast<__mmask16>(kept_pairs),
                           _mm512_permutex2var_epi32(negated, low, negated_first));
  _mm512_mask_storeu_epi32(sums + 16, static_cast<__mmask16>(kept_pairs >> 16),
                           _mm512_permutex2var_epi32(negated, high, negated_first));
}

// Sixteen blocks of one row, side by side.
struct RowBlocks {
  alignas(64) std::int8_t quants[kTogether * kBlockValues];
  float scales[kTogether], scaled_sums[kTogether];
  std::int32_t negated_sums[2 * kTogether];

  void quantise(const float* x, int count) {
    Blocks blocks;
    for (int i = 0; i < kTogether; ++i) blocks[i] = x + std::min(i, count - 1) * kBlockValues;
    BlockRanges ranges;
    find_ranges(blocks, ranges);
    round_blocks(blocks, ranges, count, {quants, scales, scaled_sums, negated_sums}, 0);
  }
  // Each between those of the other rows of a tile; `at` is the first one's place.
  void spread(int count, const QuantRows& output, std::int64_t at, int height) const {
    for (int i = 0; i < count; ++i, at += height) {
      std::memcpy(output.quants + at * kBlockValues, quants + i * kBlockValues, kBlockValues);
      output.scales[at] = scales[i];
      output.scaled_sums[at] = scaled_sums[i];
      output.negated_sums[2 * at] = negated_sums[2 * i];
      output.negated_sums[2 * at + 1] = negated_sums[2 * i + 1];
    }
  }
};

// One row, sixteen blocks after the other: make(blocks, x, count) quantises [0, count) of them.
template <int TileRows, class F>
inline void quantise_row_by_blocks(const float* x, int n, int row, int num_rows, const QuantRows& output, F&& make) {
  const int blocks = n / kBlockValues, first_row = row - row % TileRows;
  const int height = std::min(TileRows, num_rows - first_row);
  RowBlocks made;
  for (int block = 0; block < blocks; block += kTogether) {
    const int count = std::min(kTogether, blocks - block);
    make(made, x + block * kBlockValues, count);
    const std::int64_t at = std::int64_t{first_row} * blocks + std::int64_t{block} * height + (row - first_row);
    made.spread(count, output, at, height);
  }
}

template <int TileRows>
inline void quantise_rest_together(const float* x, int n, int row, int num_rows, const QuantRows& output) {
  quantise_row_by_blocks<TileRows>(x, n, row, num_rows, output, [](RowBlocks& made, const float* values, int count) {
    alignas(64) float rest[kTogether * kBlockValues];
    made.quantise(values, count);
    for (int i = 0; i < count * kBlockValues; i += 16) {
      const Vec whole = Vec::load_i8(reinterpret_cast<const std::uint8_t*>(made.quants + i));
      fnma(Vec::set(made.scales[i / kBlockValues]), whole, Vec::load(values + i)).store(rest + i);
    }
    made.quantise(rest, count);
  });
}

// A whole tile of `height` rows: all its blocks, in the order in which they lie. The ranges of some are found before any is
// rounded, since to find one and then to use it is to wait for it.
inline void quantise_tile(const float* x, std::int64_t stride, int height, int blocks, const QuantRows& output,
                          std::int64_t at) {
  constexpr int kAhead = 8;
  const int all = height * blocks;
  int row = 0;
  for (int done = 0; done < all; done += kAhead * kTogether) {
    Blocks sources[kAhead];
    BlockRanges ranges[kAhead];
    const auto lanes_of = [&](int i) { return std::min(kTogether, all - done - i * kTogether); };
    for (int i = 0; i < kAhead && lanes_of(i) > 0; ++i) {
      for (int lane = 0; lane < lanes_of(i); ++lane) {
        sources[i][lane] = x + row * stride;
        if (++row < height) continue;
        row = 0;
        x += kBlockValues;
      }
      // What lies behind the tile is not read.
      for (int lane = lanes_of(i); lane < kTogether; ++lane) sources[i][lane] = sources[i][0];
      find_ranges(sources[i], ranges[i]);
    }
    for (int i = 0; i < kAhead && lanes_of(i) > 0; ++i) {
      round_blocks(sources[i], ranges[i], lanes_of(i), output, at + done + i * kTogether);
    }
  }
}

template <int TileRows>
inline void quantise_rows_together(const float* x, std::int64_t stride, int count, int n, int row, int num_rows,
                                   const QuantRows& output) {
  const int blocks = n / kBlockValues, first_row = row - row % TileRows;
  const int height = std::min(TileRows, num_rows - first_row);
  if (count == height) return quantise_tile(x, stride, height, blocks, output, first_row * std::int64_t{blocks});
  for (int i = 0; i < count; ++i) {
    quantise_row_by_blocks<TileRows>(
        x + i * stride, n, row + i, num_rows, output,
        [](RowBlocks& made, const float* values, int blocks_now) { made.quantise(values, blocks_now); });
  }
}

}  // namespace
}  // namespace halfline
