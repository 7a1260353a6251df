// Linears with quantised weights on the matrix unit (AMX), bitwise as linear_quant.hpp defines them.
//
// One product of the unit is 16 rows of activations times one panel over one block of 32: the same exact integers as
// Dot's. They go through memory, which is the only way out of a tile, and are scaled and summed as everywhere else.
// What bounds this, measured on a Sapphire Rapids: a product keeps the unit busy for 16 cycles, storing its tile takes
// 16 more that overlap with the next product if they are of different tiles; and as long as products are under way,
// floats get one of the two vector ports, so that 16 rows take 2 x 16 cycles, 3 x 16 with minima, and some ten more.
// Integer additions still get the other port: that is why the conversion to floats is one (see WholeScale). Loads and
// stores cost nothing beside that, nor do activations that come from the second-level cache.
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

// Adds one product to the sums, scaled: sums[t] are a panel's 16 rows for activation row t. `half` is the one of a block
// whose product it is; activations [t] are of the block.
template <class Format, int Rows>
[[gnu::always_inline]] inline void add_scaled(const std::int32_t* whole, const float* panel_scales, int half,
                                              const float* scales, const float* scaled_sums, Vec (&sums)[Rows]) {
  const __m512i bits = _mm512_set1_epi32(kWholeBits);
  const WholeScale scale(Vec::load(panel_scales + half * 16));
  const Vec minimum = Vec::load(panel_scales + 16);
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) {
    const Vec scaled = scale.times(_mm512_add_epi32(_mm512_load_si512(whole + t * kPanelRows), bits));
    sums[t] = fma(Vec::set(scales[t]), scaled, sums[t]);
    if constexpr (Format::has_min) sums[t] = fma(minimum, Vec::set(scaled_sums[t]), sums[t]);
  }
}

// Asks for the lines that a tile's results go to, to be written: each row's is one line far from the next, and has
// mostly left the second-level cache. The product takes as long as they do (512 rows of 1536 outputs: 201 ticks per
// block without, 125 with, on a busy machine).
inline void ask_for_output(const LinearJob& job, int panel, int row, int count) {
  const int num_rows = job.rows + job.num_refined, stop = row + count < num_rows ? row + count : num_rows;
  for (int t = row; t < stop; ++t) {
    const float* line = job.output + output_row(job, t) * job.output_stride + std::int64_t{panel} * kPanelRows;
    asm volatile("prefetchw %0" : : "m"(*line));
  }
}

// One step of the tiles, of `total` products: begin(slot) begins the step's own, if there is one, and the product of
// kStoreLag steps before is stored in `ring`.
template <class F>
[[gnu::always_inline]] inline void move_tiles(int step, int total, std::int32_t* ring, F&& begin) {
  static_assert(kRing == kResultTiles);
  const auto move = [&](auto slot) __attribute__((always_inline)) {
    constexpr int stored = (decltype(slot)::value + kRing - kStoreLag) % kRing;
    if (step < total) begin(slot);
    if (step >= kStoreLag && step < total + kStoreLag) store_tile<stored>(ring + stored * kMatrixRows * kPanelRows);
  };
  switch (step % kResultTiles) {
    case 0: move(Count<0>{}); break;
    case 1: move(Count<1>{}); break;
    case 2: move(Count<2>{}); break;
    default: move(Count<3>{});
  }
}

// ---- Many rows ------------------------------------------------------------------------------------------------

// What is multiplied next of a stream of products: the panel's blocks by those of one tile of rows, then of the next.
template <class Format, int Rows>
struct ProductStream {
  static constexpr int parts = Format::halves ? 2 : 1;
  const std::int8_t* activations;
  const std::uint8_t *weights, *first_weights, *last_weights;
  NextPanels next;   // asked for beside the first tile
  int part = 0;

  template <int Slot>
  [[gnu::always_inline]] void begin_next() {
    multiply<Slot>(activations + part * (kBlockValues / parts), weights);
    weights += 512 / parts;
    if (parts > 1 && (part ^= 1)) return;
    activations += Rows * kBlockValues;
    next.prefetch(static_cast<int>(weights - first_weights) / 512 - 1);
    if (weights != last_weights) return;
    weights = first_weights;
    next = {};
  }
};

// What is scaled next of the same stream; a tile's results are written once its last product is.
template <class Format, int Rows>
struct ScaleStream {
  const LinearJob& job;
  const int panel;
  int row;
  const float *panel_scales, *first_scales, *last_scales;
  const float *scales, *scaled_sums;   // of the activations
  int part = 0;

  [[gnu::always_inline]] void add_next(const std::int32_t* product, Vec (&sums)[Rows]) {
    add_scaled<Format>(product, panel_scales, part, scales, scaled_sums, sums);
    if (Format::halves && (part ^= 1)) return;
    panel_scales += 32;
    scales += Rows;
    scaled_sums += Rows;
    if (panel_scales != last_scales) return;
    panel_scales = first_scales;
    Vec written[Rows];
#pragma GCC unroll 16
    for (int t = 0; t < Rows; ++t) {
      written[t] = sums[t];
      sums[t] = Vec::zero();
    }
    write_tile<Rows>(job, panel, row, written);
    row += Rows;
    ask_for_output(job, panel, row, Rows);
  }
};

// One step of four without questions: a product is begun, an earlier one stored and a yet earlier one scaled.
template <int Slot, class Format, int Rows>
[[gnu::always_inline]] inline void full_step(ProductStream<Format, Rows>& begun, ScaleStream<Format, Rows>& scaled,
                                             std::int32_t* ring, Vec (&sums)[Rows]) {
  constexpr int results = kMatrixRows * kPanelRows;
  constexpr int stored = (Slot + kRing - kStoreLag) % kRing, done = (Slot + 2 * kRing - kScaleLag) % kRing;
  begun.template begin_next<Slot>();
  store_tile<stored>(ring + stored * results);
  scaled.add_next(ring + done * results, sums);
}

// A panel times `num_tiles` tiles of `Rows` rows, from `row` on. `ring` holds kRing results. All products are one
// stream: at the end of a tile some of the next are under way. Out of line, as what is around it takes its registers.
template <class Format, int Rows>
[[gnu::noinline]] void panel_rows(const LinearJob& job, const MatrixPanel& unpacked, int panel, int row, int num_tiles,
                                  int blocks, std::int32_t* ring) {
  const QuantTile tile = tile_at(job.quant, row, blocks);
  const int total = num_tiles * blocks * (Format::halves ? 2 : 1);
  ProductStream<Format, Rows> begun{tile.quants, unpacked.quants, unpacked.quants, unpacked.quants + blocks * 512,
                                    row == 0 ? next_panels<Format>(*job.weights, panel, panel + 1) : NextPanels{}};
  ScaleStream<Format, Rows> scaled{job,
                                   panel,
                                   row,
                                   unpacked.scales,
                                   unpacked.scales,
                                   unpacked.scales + blocks * 32,
                                   tile.scales,
                                   tile.scaled_sums};
  ask_for_output(job, panel, row, Rows);
  Vec sums[Rows];
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) sums[t] = Vec::zero();
  int step = 0;
  const auto any_steps = [&](int stop, Vec (&rows)[Rows]) __attribute__((always_inline)) {
    for (; step < stop; ++step) {
      move_tiles(step, total, ring, [&](auto slot) { begun.template begin_next<decltype(slot)::value>(); });
      if (step >= kScaleLag) scaled.add_next(ring + (step - kScaleLag) % kRing * kMatrixRows * kPanelRows, rows);
    }
  };
  // Whole tiles are most of the work; for a shorter one at the end the code would only be larger.
  if constexpr (Rows == kMatrixRows) {
    constexpr int kBegun = (kScaleLag + kResultTiles - 1) / kResultTiles * kResultTiles;   // whole rounds of slots
    any_steps(kBegun < total ? kBegun : total, sums);
    for (; step + kResultTiles <= total; step += kResultTiles) {
      full_step<0>(begun, scaled, ring, sums);
      full_step<1>(begun, scaled, ring, sums);
      full_step<2>(begun, scaled, ring, sums);
      full_step<3>(begun, scaled, ring, sums);
    }
  }
  any_steps(total + kScaleLag, sums);
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

// All rows fit one tile, so that each panel is used once: unpacking it first would take a quarter of the time, and more
// where it does not stay in the first-level cache. Here the panels are one stream of blocks, in which one is unpacked
// while an earlier one is multiplied and a yet earlier one scaled.
//
// Out of line: within its callers its sums do not stay in registers.
template <class Format, int Rows>
[[gnu::noinline]] void matrix_stream(const LinearJob& job, int begin, int end, std::uint8_t* scratch) {
  const PackedMatrix& weights = *job.weights;
  const int blocks = weights.cols / kBlockValues, total = (end - begin) * blocks;
  const QuantTile tile = tile_at(job.quant, 0, blocks);
  auto* results = reinterpret_cast<std::int32_t*>(scratch);
  std::uint8_t* quants = scratch + kRing * kResultBytes;
  auto* scales = reinterpret_cast<float*>(quants + kQuantRing * 512);
  const auto result = [&](int product) { return results + product % kRing * (kMatrixRows * kPanelRows); };
  const auto unpacked_quants = [&](int product) { return quants + product % kQuantRing * 512; };
  const auto unpacked_scales = [&](int product) { return scales + product % kScaleRing * 32; };

  StreamPlace unpacked{begin}, multiplied{begin}, scaled{begin};
  Vec sums[Rows];
#pragma GCC unroll 16
  for (int t = 0; t < Rows; ++t) sums[t] = Vec::zero();
  TileShapes(Rows, kBlockValues).load();
  for (int step = -kUnpackLead; step < total + kScaleLag; ++step) {
    const int next = step + kUnpackLead;
    if (next < total) {
      const StreamedPanel<Format> panel{{weights.data + unpacked.panel * weights.panel_bytes}};
      panel.prefetch(unpacked.block);
      unpack_block(panel, unpacked.block, unpacked_quants(next), unpacked_scales(next));
      unpacked.step(blocks);
    }
    if (step < 0) continue;

    move_tiles(step, total, results, [&](auto slot) __attribute__((always_inline)) {
      if (multiplied.block == 0) ask_for_output(job, multiplied.panel, 0, Rows);
      multiply<decltype(slot)::value>(tile.quants + std::int64_t{multiplied.block} * Rows * kBlockValues,
                                      unpacked_quants(step));
      multiplied.step(blocks);
    });
    const int product = step - kScaleLag;
    if (product < 0) continue;
    const std::int64_t at = std::int64_t{scaled.block} * Rows;
    add_scaled<Format>(result(product), unpacked_scales(product), 0, tile.scales + at, tile.scaled_sums + at, sums);
    if (scaled.block == blocks - 1) {
      Vec written[Rows];
#pragma GCC unroll 16
      for (int t = 0; t < Rows; ++t) {
        written[t] = sums[t];
        sums[t] = Vec::zero();
      }
      write_tile<Rows>(job, scaled.panel, 0, written);
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
    if (last_row > 0) {
      shape(kMatrixRows);
      panel_rows<Format, kMatrixRows>(job, unpacked, panel, 0, last_row / kMatrixRows, blocks, ring);
    }
    if (last_row == num_rows) continue;
    shape(num_rows - last_row);
    with_count<kMatrixRows - 1>(num_rows - last_row, [&](auto rows) {
      panel_rows<Format, decltype(rows)::value>(job, unpacked, panel, last_row, 1, blocks, ring);
    });
  }
  // A thread without tiles in use is cheaper to put aside.
  release_tiles();
}

}  // namespace
}  // namespace halfline
