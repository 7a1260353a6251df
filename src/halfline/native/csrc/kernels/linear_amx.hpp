// Linears with quantised weights on the matrix unit (AMX), bitwise as linear_quant.hpp defines them.
//
// One product of the unit is 16 rows of activations times one panel over one block of 32: the same exact integers as
// Dot's. They go through memory, which is the only way out of a tile, and are scaled and summed as everywhere else.
// What bounds this, measured on a Sapphire Rapids: a product keeps the unit busy for 16 cycles, storing its tile takes
// 16 more that overlap with the next product if they are of different tiles; and as long as tiles are in use, floats
// get one of the two vector ports, so that 16 rows take 2 x 16 cycles, 3 x 16 with minima. Integer additions still get
// the other port: that is why the conversion to floats is one (see WholeScale).
#pragma once

#include <immintrin.h>

#include "../kernels.hpp"
#include "counts.hpp"
#include "linear_quant.hpp"
#include "tiles.hpp"

namespace halfline {
namespace {

constexpr int kMatrixRows = 16;      // rows of a tile register
constexpr int kResultTiles = 4;      // products under way; tile registers 0..3
constexpr int kRing = 4;             // results in memory, of 16 x 16 sums
constexpr int kStoreLag = 3;         // a product is stored this many products later, when it is done,
constexpr int kScaleLag = 5;         // and scaled yet later, when the store has reached the cache
constexpr int kUnpackLead = 3;       // a block is unpacked this many products before its own
constexpr int kQuantRing = 4, kScaleRing = 16;   // blocks that are kept unpacked
constexpr int kResultBytes = kMatrixRows * kPanelRows * 4;
static_assert(kRing * kResultBytes + kQuantRing * 512 + kScaleRing * 128 <= kMatrixRingBytes);
static_assert(kUnpackLead < kQuantRing && kUnpackLead + kScaleLag < kScaleRing);
static_assert(kStoreLag < kResultTiles && kScaleLag - kStoreLag < kRing);

// Result `Slot` of one product.
template <int Slot>
inline void multiply(const std::int8_t* activations, const std::uint8_t* weights) {
  clear_tile<Slot>();
  load_tile<kActivationTile>(activations, kBlockValues);
  load_tile<kWeightTile>(weights, 64);
  multiply_tiles<Slot>();
}

// ---- Weights --------------------------------------------------------------------------------------------------

// One panel, unpacked: true integers (no zero point) and scales, both as linear_quant.hpp lays them out.
struct MatrixPanel {
  const std::uint8_t* quants;   // [block][8 vectors of 64]
  const float* scales;          // [block][scale, second]
};

// One block of it: eight vectors of quants, and two of scales.
template <class Format>
inline void unpack_block(const PackedPanel<Format>& panel, int block, std::uint8_t* quants, float* scales) {
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(Format::zero_shift ? 1 << Format::zero_shift : 0));
  for (int g = 0; g < 8; ++g) _mm512_store_si512(quants + g * 64, _mm512_sub_epi8(panel.vector(block, g).v, zero));
  const BlockScales scale = panel.scale(block);
  scale.scale.store(scales);
  scale.second.store(scales + 16);
}

template <class Format>
inline MatrixPanel unpack_signed(const PackedPanel<Format>& panel, int blocks, std::uint8_t* scratch) {
  auto* scales = reinterpret_cast<float*>(scratch + blocks * 512);
  for (int block = 0; block < blocks; ++block) {
    unpack_block(panel, block, scratch + block * 512, scales + block * 32);
  }
  return {scratch, scales};
}

// ---- The product ----------------------------------------------------------------------------------------------

// Adds one product to the sums, scaled: sums[t] are a panel's 16 rows for activation row t.
template <class Format, int Rows>
inline void add_scaled(const std::int32_t* whole, const float* panel_scales, int half, const QuantTile& tile, int block,
                       __m512i bits, Vec (&sums)[Rows]) {
  const float* scales = tile.scales + std::int64_t{block} * Rows;
  const float* scaled_sums = tile.scaled_sums + std::int64_t{block} * Rows;
  const WholeScale scale(Vec::load(panel_scales + half * 16));
  const Vec minimum = Vec::load(panel_scales + 16);
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) {
    const Vec scaled = scale.times(_mm512_add_epi32(_mm512_load_si512(whole + t * kPanelRows), bits));
    sums[t] = fma(Vec::set(scales[t]), scaled, sums[t]);
    if constexpr (Format::has_min) sums[t] = fma(minimum, Vec::set(scaled_sums[t]), sums[t]);
  }
}

// All products of a panel with a tile. `ring` holds kRing results.
template <class Format, int Rows>
inline void matrix_tile(const MatrixPanel& panel, const NextPanels& next, const QuantTile& tile, int blocks,
                        std::int32_t* ring, Vec (&sums)[Rows]) {
  constexpr int parts = Format::halves ? 2 : 1;
  constexpr int values = kBlockValues / parts;
  const int products = blocks * parts;
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) sums[t] = Vec::zero();
  const auto result = [&](int product) { return ring + product % kRing * (kMatrixRows * kPanelRows); };
  const __m512i bits = _mm512_set1_epi32(kWholeBits);

  for (int step = 0; step < products + kScaleLag; ++step) {
    if (step < blocks) next.prefetch(step);
    const auto move_tiles = [&](auto slot) __attribute__((always_inline)) {
      constexpr int number = decltype(slot)::value;
      if (step < products) {
        multiply<number>(tile.quants + std::int64_t{step / parts} * Rows * kBlockValues + step % parts * values,
                         panel.quants + step * (512 / parts));
      }
      const int done = step - kStoreLag;
      if (done >= 0 && done < products) store_tile<(number + kResultTiles - kStoreLag) % kResultTiles>(result(done));
    };
    switch (step % kResultTiles) {
      case 0: move_tiles(Count<0>{}); break;
      case 1: move_tiles(Count<1>{}); break;
      case 2: move_tiles(Count<2>{}); break;
      default: move_tiles(Count<3>{});
    }

    const int product = step - kScaleLag;
    if (product < 0) continue;
    const int block = product / parts;
    add_scaled<Format>(result(product), panel.scales + block * 32, product % parts, tile, block, bits, sums);
  }
}

// Asks for the lines that a tile's results go to, to be written: each row's is one line far from the next, and has
// mostly left the second-level cache. The product takes as long as they do (512 rows of 1536 outputs: 201 ticks per
// block without, 125 with, on a busy machine).
template <int Rows>
inline void ask_for_output(const LinearJob& job, int panel, int row) {
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) {
    const float* line = job.output + output_row(job, row + t) * job.output_stride + std::int64_t{panel} * kPanelRows;
    asm volatile("prefetchw %0" : : "m"(*line));
  }
}

template <class Format, int Rows>
inline void matrix_tile_out(const LinearJob& job, const MatrixPanel& unpacked, const NextPanels& next, int panel,
                            int row, int blocks, std::int32_t* ring) {
  ask_for_output<Rows>(job, panel, row);
  Vec sums[Rows];
  matrix_tile<Format>(unpacked, next, tile_at(job.quant, row, blocks), blocks, ring, sums);
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) write_sums(job, panel, row + t, sums[t]);
}

// ---- One tile of rows -----------------------------------------------------------------------------------------

// Where a stream of blocks is: in a panel, at a block of it.
struct StreamPlace {
  int panel, block = 0;

  void step(int blocks) {
    if (++block < blocks) return;
    block = 0;
    ++panel;
  }
};

// Out of the loop, whose sums would not stay in registers otherwise.
template <int Rows>
[[gnu::noinline]] void write_tile(const LinearJob& job, int panel, const Vec* sums) {
  for (int t = 0; t < Rows; ++t) write_sums(job, panel, t, sums[t]);
}

// All rows fit one tile, so that each panel is used once: unpacking it first would take a quarter of the time, and more
// where it does not stay in the first-level cache. Here the panels are one stream of blocks, in which one is unpacked
// while an earlier one is multiplied and a yet earlier one scaled. As long as tiles are in use floats have one vector
// port and integers the other.
template <class Format, int Rows>
void matrix_stream(const LinearJob& job, int begin, int end, std::uint8_t* scratch) {
  const PackedMatrix& weights = *job.weights;
  const int blocks = weights.cols / kBlockValues, total = (end - begin) * blocks;
  const QuantTile tile = tile_at(job.quant, 0, blocks);
  auto* results = reinterpret_cast<std::int32_t*>(scratch);
  std::uint8_t* quants = scratch + kRing * kResultBytes;
  auto* scales = reinterpret_cast<float*>(quants + kQuantRing * 512);
  const auto result = [&](int product) { return results + product % kRing * (kMatrixRows * kPanelRows); };
  const auto unpacked_quants = [&](int product) { return quants + product % kQuantRing * 512; };
  const auto unpacked_scales = [&](int product) { return scales + product % kScaleRing * 32; };
  const __m512i bits = _mm512_set1_epi32(kWholeBits);

  StreamPlace unpacked{begin}, multiplied{begin}, scaled{begin};
  Vec sums[Rows];
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) sums[t] = Vec::zero();
  TileShapes(Rows, kBlockValues).load();
  for (int step = -kUnpackLead; step < total + kScaleLag; ++step) {
    const int next = step + kUnpackLead;
    if (next < total) {
      const PackedPanel<Format> panel{weights.data + unpacked.panel * weights.panel_bytes};
      panel.prefetch(unpacked.block);
      unpack_block(panel, unpacked.block, unpacked_quants(next), unpacked_scales(next));
      unpacked.step(blocks);
    }
    if (step < 0) continue;

    const auto move_tiles = [&](auto slot) __attribute__((always_inline)) {
      constexpr int number = decltype(slot)::value;
      if (step < total) {
        if (multiplied.block == 0) ask_for_output<Rows>(job, multiplied.panel, 0);
        multiply<number>(tile.quants + std::int64_t{multiplied.block} * Rows * kBlockValues, unpacked_quants(step));
        multiplied.step(blocks);
      }
      const int done = step - kStoreLag;
      if (done >= 0 && done < total) store_tile<(number + kResultTiles - kStoreLag) % kResultTiles>(result(done));
    };
    switch (step % kResultTiles) {
      case 0: move_tiles(Count<0>{}); break;
      case 1: move_tiles(Count<1>{}); break;
      case 2: move_tiles(Count<2>{}); break;
      default: move_tiles(Count<3>{});
    }

    const int product = step - kScaleLag;
    if (product < 0) continue;
    add_scaled<Format>(result(product), unpacked_scales(product), 0, tile, scaled.block, bits, sums);
    if (scaled.block == blocks - 1) {
      Vec written[Rows];
#pragma GCC unroll 16
      for (int t = 0; t < Rows; ++t) {
        written[t] = sums[t];
        sums[t] = Vec::zero();
      }
      write_tile<Rows>(job, scaled.panel, written);
    }
    scaled.step(blocks);
  }
  release_tiles();
}

// ---- Any rows -------------------------------------------------------------------------------------------------

template <class Format>
void matrix_linear(const LinearJob& job, int begin, int end, std::uint8_t* scratch) {
  const PackedMatrix& weights = *job.weights;
  const int blocks = weights.cols / kBlockValues;
  const int num_rows = job.rows + job.num_refined, last_row = num_rows - num_rows % kMatrixRows;
  if constexpr (!Format::halves) {
    if (num_rows <= kMatrixRows) {
      return with_count<kMatrixRows>(
          num_rows, [&](auto rows) { matrix_stream<Format, decltype(rows)::value>(job, begin, end, scratch); });
    }
  }
  auto* ring = reinterpret_cast<std::int32_t*>(scratch);
  int shaped = 0;   // rows that the tiles have now
  // A block with a scale per half is two products.
  const auto shape = [&](int rows) {
    if (rows != shaped) TileShapes(rows, Format::halves ? kBlockValues / 2 : kBlockValues).load();
    shaped = rows;
  };
  for (int panel = begin; panel < end; ++panel) {
    const MatrixPanel unpacked = unpack_signed(PackedPanel<Format>{weights.data + panel * weights.panel_bytes}, blocks,
                                               scratch + kMatrixRingBytes);
    NextPanels next = next_panels<Format>(weights, panel, panel + 1);
    if (last_row > 0) shape(kMatrixRows);
    for (int row = 0; row < last_row; row += kMatrixRows) {
      matrix_tile_out<Format, kMatrixRows>(job, unpacked, next, panel, row, blocks, ring);
      next = {};
    }
    if (last_row == num_rows) continue;
    shape(num_rows - last_row);
    with_count<kMatrixRows - 1>(num_rows - last_row, [&](auto rows) {
      matrix_tile_out<Format, decltype(rows)::value>(job, unpacked, next, panel, last_row, blocks, ring);
    });
  }
  // A thread without tiles in use is cheaper to put aside.
  release_tiles();
}

}  // namespace
}  // namespace halfline
