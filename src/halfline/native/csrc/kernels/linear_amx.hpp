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

template <class Format>
inline MatrixPanel unpack_signed(const PackedPanel<Format>& panel, int blocks, std::uint8_t* scratch) {
  float* scales = reinterpret_cast<float*>(scratch + blocks * 512);
  const __m512i zero = _mm512_set1_epi8(static_cast<char>(Format::zero_shift ? 1 << Format::zero_shift : 0));
  for (int block = 0; block < blocks; ++block) {
    for (int g = 0; g < 8; ++g) {
      _mm512_store_si512(scratch + block * 512 + g * 64, _mm512_sub_epi8(panel.vector(block, g).v, zero));
    }
    const BlockScales scale = panel.scale(block);
    scale.scale.store(scales + block * 32);
    scale.second.store(scales + block * 32 + 16);
  }
  return {scratch, scales};
}

// ---- The product ----------------------------------------------------------------------------------------------

// sums[t] are the panel's 16 rows for activation row t. `ring` holds kRing results.
template <class Format, int Rows>
inline void matrix_tile(const MatrixPanel& panel, const NextPanels& next, const QuantTile& tile, int blocks,
                        std::int32_t* ring, Vec (&sums)[Rows]) {
  constexpr int parts = Format::halves ? 2 : 1;
  constexpr int values = kBlockValues / parts;
  const int products = blocks * parts;
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) sums[t] = Vec::zero();
  const auto result = [&](int product) { return ring + product % kRing * (kMatrixRows * kPanelRows); };

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
    const std::int32_t* whole = result(product);
    const float* scales = tile.scales + std::int64_t{block} * Rows;
    const float* scaled_sums = tile.scaled_sums + std::int64_t{block} * Rows;
    const WholeScale scale(Vec::load(panel.scales + block * 32 + product % parts * 16));
    const Vec minimum = Vec::load(panel.scales + block * 32 + 16);
    const __m512i bits = _mm512_set1_epi32(kWholeBits);
#pragma GCC unroll 16
    for (int t = 0; t < Rows; ++t) {
      const Vec scaled = scale.times(_mm512_add_epi32(_mm512_load_si512(whole + t * kPanelRows), bits));
      sums[t] = fma(Vec::set(scales[t]), scaled, sums[t]);
      if constexpr (Format::has_min) sums[t] = fma(minimum, Vec::set(scaled_sums[t]), sums[t]);
    }
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

template <class Format>
void matrix_linear(const LinearJob& job, int begin, int end, std::uint8_t* scratch) {
  const PackedMatrix& weights = *job.weights;
  const int blocks = weights.cols / kBlockValues;
  const int num_rows = job.rows + job.num_refined, last_row = num_rows - num_rows % kMatrixRows;
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
static_assert(kRing * kMatrixRows * kPanelRows * sizeof(std::int32_t) <= kMatrixRingBytes);

}  // namespace
}  // namespace halfline
