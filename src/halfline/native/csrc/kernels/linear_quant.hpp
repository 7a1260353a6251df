// Linears with quantised weights: y[row] = sum over blocks b, in order, of
//     acc = fma(scale_a, scale_w * integer dot, acc)       twice for formats with a scale per half block
//     acc = fma(min_w, scale_a * sum of quants, acc)       for formats with a minimum
// Every lane is one output row, so neither the vector width nor the number of rows changes the order.
#pragma once

#include "../kernels.hpp"
#include "counts.hpp"
#include "rows.hpp"

namespace halfline {
namespace {

// ---- Activations ----------------------------------------------------------------------------------------------

// One tile of QuantRows, as the kernels walk it.
struct QuantTile {
  const std::int8_t* quants;
  const float* scales;
  const float* scaled_sums;
  const std::int32_t* negated_sums;
};

inline QuantTile tile_at(const QuantRows& rows, int first_row, int blocks) {
  const std::int64_t before = std::int64_t{first_row} * blocks;
  return {rows.quants + before * kBlockValues, rows.scales + before, rows.scaled_sums + before,
          rows.negated_sums + before * 2};
}

// What one product takes of them: the rows of one tile, or of a whole one and some of the next.
template <int Rows>
struct ProductRows {
  static constexpr int kFirst = Rows < kTileRows ? Rows : kTileRows, kSecond = Rows - kFirst;
  static_assert(kSecond <= kTileRows);
  QuantTile first, second{};

  ProductRows(const QuantRows& rows, int first_row, int blocks) : first(tile_at(rows, first_row, blocks)) {
    if constexpr (kSecond > 0) second = tile_at(rows, first_row + kTileRows, blocks);
  }
  // Of row t, counted from the first.
  const std::int8_t* quants(int block, int t) const { return tile(t).quants + at(block, t) * kBlockValues; }
  const std::int32_t* negated_sums(int block, int t) const { return tile(t).negated_sums + at(block, t) * 2; }
  float scale(int block, int t) const { return tile(t).scales[at(block, t)]; }
  float scaled_sum(int block, int t) const { return tile(t).scaled_sums[at(block, t)]; }

 private:
  const QuantTile& tile(int t) const { return t < kFirst ? first : second; }
  static std::int64_t at(int block, int t) {
    return t < kFirst ? std::int64_t{block} * kFirst + t : std::int64_t{block} * kSecond + (t - kFirst);
  }
};

// One block in int8.
struct QuantBlock {
  Vec first, second;   // whole numbers within [-127, 127]
  float scale;
};

inline QuantBlock quantise_block(Vec low, Vec high) {
  const float amax = largest(max(abs(low), abs(high)));
  // Below this 127 / amax overflows; such a block is zero.
  const bool vanishes = !(amax > 1e-30f);
  const Vec inverse = Vec::set(vanishes ? 0.0f : 127.0f / amax);
  return {nearest(low * inverse), nearest(high * inverse), vanishes ? 0.0f : amax / 127.0f};
}

// block_of(low, high) is what one block of x is to be kept as.
template <int TileRows, class F>
inline void quantise_with(const float* x, int n, int row, int num_rows, const QuantRows& output, F&& block_of) {
  const int blocks = n / kBlockValues;
  const int first_row = row - row % TileRows;
  const int height = num_rows - first_row < TileRows ? num_rows - first_row : TileRows;
  for (int block = 0; block < blocks; ++block) {
    const QuantBlock kept =
        block_of(Vec::load(x + block * kBlockValues), Vec::load(x + block * kBlockValues + 16));
    const std::int64_t at = std::int64_t{first_row} * blocks + std::int64_t{block} * height + (row - first_row);
    std::int8_t* quants = output.quants + at * kBlockValues;
    kept.first.store_i8(quants);
    kept.second.store_i8(quants + 16);
    // Sums of whole numbers this small are exact.
    const float first_sum = sum(kept.first), whole_sum = sum(kept.first + kept.second);
    output.scales[at] = kept.scale;
    output.scaled_sums[at] = kept.scale * whole_sum;
    output.negated_sums[at * 2] = -static_cast<std::int32_t>(whole_sum);
    output.negated_sums[at * 2 + 1] = -static_cast<std::int32_t>(first_sum);
  }
}

template <int TileRows>
inline void quantise_row(const float* x, int n, int row, int num_rows, const QuantRows& output) {
  quantise_with<TileRows>(x, n, row, num_rows, output, quantise_block);
}

template <int TileRows>
inline void quantise_rows(const float* x, std::int64_t stride, int count, int n, int row, int num_rows,
                          const QuantRows& output) {
  for (int i = 0; i < count; ++i) quantise_row<TileRows>(x + i * stride, n, row + i, num_rows, output);
}

template <int TileRows>
inline void quantise_rest_row(const float* x, int n, int row, int num_rows, const QuantRows& output) {
  quantise_with<TileRows>(x, n, row, num_rows, output, [](Vec low, Vec high) {
    const QuantBlock kept = quantise_block(low, high);
    const Vec scale = Vec::set(kept.scale);
    return quantise_block(fnma(scale, kept.first, low), fnma(scale, kept.second, high));
  });
}

// ---- Weights --------------------------------------------------------------------------------------------------

struct BlockScales {
  Vec scale;    // of the block, or of its first half
  Vec second;   // the minimum, or the scale of the second half; unused by plain formats
};

template <class Format>
inline BlockScales scales_of(const std::uint8_t* scales, int at) {
  const auto halves = [](const std::uint8_t* p) { return Vec::load_half(reinterpret_cast<const std::uint16_t*>(p)); };
  if constexpr (Format::scales == Scales::plain) {
    return {halves(scales + at * 32), Vec::zero()};
  } else if constexpr (Format::scales == Scales::with_min) {
    return {halves(scales), halves(scales + 32)};
  } else if constexpr (Format::scales == Scales::super_with_min) {
    const std::uint8_t* sub = scales + 64 + at * 32;
    return {halves(scales) * Vec::load_u8(sub), Vec::zero() - halves(scales + 32) * Vec::load_u8(sub + 16)};
  } else {
    const std::uint8_t* sub = scales + 32 + at * 32;
    return {halves(scales) * Vec::load_i8(sub), halves(scales) * Vec::load_i8(sub + 16)};
  }
}

// Vector g of a block's eight, from where the panel lies in memory.
template <class Format>
struct PackedPanel {
  const std::uint8_t* groups;

  const std::uint8_t* group_of(int block) const {
    return groups + std::int64_t{block / Format::group} * Format::group_bytes;
  }
  Bytes vector(int block, int g) const {
    const std::uint8_t* p = quants(block);
    if constexpr (Format::nibbles) {
      const Bytes both = Bytes::load(p + (g % 4) * 64);
      return g < 4 ? both.low_nibbles() : both.high_nibbles();
    } else {
      return Bytes::load(p + g * 64);
    }
  }
  // A block's quants, whole.
  const std::uint8_t* quants(int block) const { return group_of(block) + block % Format::group * Format::quant_bytes; }
  BlockScales scale(int block) const {
    return scales_of<Format>(group_of(block) + Format::group * Format::quant_bytes, block % Format::group);
  }
};

// A panel that is walked through once, straight from memory.
template <class Format>
struct StreamedPanel : PackedPanel<Format> {
  // The hardware stops at the end of every page and starts again slowly, so what comes later is asked for: into the
  // second-level cache as far ahead as memory takes, into the first when it is near. Asking for nothing, two threads got
  // 19 GB/s; 4 KiB ahead into the first alone 28, both so 31 (Q4_1, one row, Sapphire Rapids, weights in memory). Behind
  // the last panel it asks for nothing that exists, which is allowed.
  void prefetch(int block) const {
    constexpr int kFar = 6144, kNear = 2048, kBytes = Format::group_bytes / Format::group;
    const auto* next = reinterpret_cast<const char*>(this->groups) + std::int64_t{block} * kBytes;
    for (int line = 0; line < kBytes; line += 64) {
      __builtin_prefetch(next + kFar + line, 0, 2);
      __builtin_prefetch(next + kNear + line);
    }
  }
};

// What comes next, asked for while the first rows are multiplied. Unpacking alone cannot keep memory busy, and asking for
// more while it lasts slows it down: 16 rows on tiles took 112 ticks per block and panel without and 68 with.
struct NextPanels {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* end = nullptr;
  int block_bytes = 0;   // asked for with every block

  // Into the second-level cache.
  void prefetch(int block) const {
    const std::uint8_t* line = data + std::int64_t{block} * block_bytes;
    if (line >= end) return;
    for (int at = 0; at < block_bytes; at += 64) __builtin_prefetch(line + at, 0, 2);
  }
  // All blocks have been walked through once.
  void pass(int blocks) { data += std::int64_t{blocks} * block_bytes; }
};

// The panels that follow [begin, end), as many as they are, in at most so many passes; behind the last one there is nothing
// to ask for.
template <class Format>
inline NextPanels next_panels(const PackedMatrix& weights, int begin, int end, int passes = 1) {
  if (end >= weights.panels) return {};
  const std::uint8_t* data = weights.data + end * weights.panel_bytes;
  const int block_bytes = (end - begin) * (Format::group_bytes / Format::group);
  return {data, data + (end - begin) * weights.panel_bytes, (block_bytes + passes * 64 - 1) / (passes * 64) * 64};
}

// A panel that rows walk through several times, tile after tile. `next` and `ahead` are set in the first of a few side by
// side.
template <class Panel>
struct RevisitedPanel : Panel {
  // With each block: sixteen rows of the embedded model ask for the KV of 144 places of each while they go through a layer.
  static constexpr int kLinesAhead = 3;
  NextPanels next;
  ReadAhead* ahead = nullptr;

  void prefetch(int block) const {
    next.prefetch(block);
    if (ahead) ahead->ask(kLinesAhead);
  }
  void pass(int blocks) { next.pass(blocks); }
};

// A panel unpacked once for many rows:   [block][8 vectors of 64 bytes] | [block][2 vectors of 16 floats]
struct UnpackedPanel {
  const std::uint8_t* quants;
  const float* scales;

  Bytes vector(int block, int g) const { return Bytes::load(quants + block * 512 + g * 64); }
  BlockScales scale(int block) const {
    return {Vec::load(scales + block * 32), Vec::load(scales + block * 32 + 16)};
  }
};

template <class Format>
inline UnpackedPanel unpack(const PackedPanel<Format>& panel, int blocks, std::uint8_t* scratch) {
  std::uint8_t* quants = scratch;
  float* scales = reinterpret_cast<float*>(scratch + blocks * 512);
  for (int block = 0; block < blocks; ++block) {
    for (int g = 0; g < 8; ++g) panel.vector(block, g).store(quants + block * 512 + g * 64);
    const BlockScales scale = panel.scale(block);
    scale.scale.store(scales + block * 32);
    scale.second.store(scales + block * 32 + 16);
  }
  return {quants, scales};
}

// ---- The product ----------------------------------------------------------------------------------------------

// Panels x Rows results at once: sums[p][t] are the 16 rows of panel p for activation row t.
template <class Format, int Panels, int Rows, class Panel>
inline void quant_tile(const Panel* panels, const ProductRows<Rows>& rows, int blocks, Vec (&sums)[Panels][Rows]) {
  for (int p = 0; p < Panels; ++p) {
    for (int t = 0; t < Rows; ++t) sums[p][t] = Vec::zero();
  }
  for (int block = 0; block < blocks; ++block) {
    for (int p = 0; p < Panels; ++p) panels[p].prefetch(block);

    const auto half_block = [&](int first, int count, auto start_sum, auto scale_of) {
      Dot<Format> dots[Panels][Rows];
#pragma GCC unroll 12
      for (int t = 0; t < Rows; ++t) {
        const std::int32_t start = start_sum(rows.negated_sums(block, t));
#pragma GCC unroll 4
        for (int p = 0; p < Panels; ++p) dots[p][t].start(start);
      }
#pragma GCC unroll 8
      for (int g = first; g < first + count; ++g) {
        Bytes weights[Panels];
#pragma GCC unroll 4
        for (int p = 0; p < Panels; ++p) weights[p] = panels[p].vector(block, g);
#pragma GCC unroll 12
        for (int t = 0; t < Rows; ++t) {
#pragma GCC unroll 4
          for (int p = 0; p < Panels; ++p) dots[p][t].add(weights[p], rows.quants(block, t) + 4 * g);
        }
      }
#pragma GCC unroll 4
      for (int p = 0; p < Panels; ++p) {
        const WholeScale scale(scale_of(p));
#pragma GCC unroll 12
        for (int t = 0; t < Rows; ++t) {
          sums[p][t] = fma(Vec::set(rows.scale(block, t)), dots[p][t].times(scale), sums[p][t]);
        }
      }
    };

    if constexpr (Format::halves) {
      half_block(0, 4, [](const std::int32_t* negated) { return negated[1]; },
                 [&](int p) { return panels[p].scale(block).scale; });
      half_block(4, 4, [](const std::int32_t* negated) { return negated[0] - negated[1]; },
                 [&](int p) { return panels[p].scale(block).second; });
    } else {
      half_block(0, 8, [](const std::int32_t* negated) { return negated[0]; },
                 [&](int p) { return panels[p].scale(block).scale; });
    }
    if constexpr (Format::has_min) {
#pragma GCC unroll 4
      for (int p = 0; p < Panels; ++p) {
        const Vec minimum = panels[p].scale(block).second;
#pragma GCC unroll 12
        for (int t = 0; t < Rows; ++t) sums[p][t] = fma(minimum, Vec::set(rows.scaled_sum(block, t)), sums[p][t]);
      }
    }
  }
}

// Where the result of a row goes; a second term's to its first one's.
inline std::int64_t output_row(const LinearJob& job, int row) {
  return row < job.rows ? row : job.refined[row - job.rows];
}

// Bias, residual and the cut at the last panel: shared by all linears. A second term finds the first one's result in
// the output, since rows are written in order.
inline void write_sums(const LinearJob& job, int panel, int row, Vec sums) {
  const bool second = row >= job.rows;
  if (job.bias && !second) sums = sums + Vec::load(job.bias + panel * kPanelRows);
  float* output = job.output + output_row(job, row) * job.output_stride + std::int64_t{panel} * kPanelRows;
  const int count = job.weights->rows - panel * kPanelRows;
  const bool adds = job.accumulate || second;
  const Vec scale = Vec::set(job.accumulate ? job.residual_scale : 1.0f);
  if (count >= kPanelRows) {
    if (adds) sums = fma(scale, sums, Vec::load(output));
    sums.store(output);
  } else {
    float last[kPanelRows] = {};
    if (adds) {
      for (int i = 0; i < count; ++i) last[i] = output[i];
      sums = fma(scale, sums, Vec::load(last));
    }
    sums.store_first(output, count);
  }
}

// Out of the loops, whose sums would not stay in registers otherwise.
template <int Rows>
[[gnu::noinline]] void write_tile(const LinearJob& job, int panel, int row, const Vec* sums) {
  const bool whole = job.weights->rows - panel * kPanelRows >= kPanelRows && row + Rows <= job.rows;
  if (!whole || job.bias) {
    for (int t = 0; t < Rows; ++t) write_sums(job, panel, row + t, sums[t]);
    return;
  }
  // The same for most tiles, with nothing to ask about each row.
  float* output = job.output + row * job.output_stride + std::int64_t{panel} * kPanelRows;
  if (job.accumulate) {
    const Vec scale = Vec::set(job.residual_scale);
    for (int t = 0; t < Rows; ++t, output += job.output_stride) fma(scale, sums[t], Vec::load(output)).store(output);
  } else {
    for (int t = 0; t < Rows; ++t, output += job.output_stride) sums[t].store(output);
  }
}

template <class Format, int Panels, int Rows, class Panel>
inline void quant_tile_out(const LinearJob& job, const Panel* panels, int panel, int row, int blocks) {
  Vec sums[Panels][Rows];
  quant_tile<Format, Panels, Rows>(panels, ProductRows<Rows>(job.quant, row, blocks), blocks, sums);
  for (int p = 0; p < Panels; ++p) write_tile<Rows>(job, panel + p, row, sums[p]);
}

// All rows by these panels, which lie side by side.
template <class Format, int Panels, class Panel>
inline void quant_rows(const LinearJob& job, Panel* sources, int panel, int num_rows, int blocks) {
  int row = 0;
  for (; row + kTileRows <= num_rows; row += kTileRows) {
    quant_tile_out<Format, Panels, kTileRows>(job, sources, panel, row, blocks);
    sources[0].pass(blocks);
  }
  if (row == num_rows) return;
  with_count<kTileRows>(num_rows - row, [&](auto rows) {
    quant_tile_out<Format, Panels, decltype(rows)::value>(job, sources, panel, row, blocks);
  });
}

// The next panels are asked for during at most so many passes: all at once is more than memory takes.
constexpr int kMostPasses = 8;

template <class Format>
void quant_linear(const LinearJob& job, int begin, int end, std::uint8_t* scratch) {
  const PackedMatrix& weights = *job.weights;
  const int blocks = weights.cols / kBlockValues;
  const int num_rows = job.rows + job.num_refined;
  const auto packed = [&](int panel) { return PackedPanel<Format>{weights.data + panel * weights.panel_bytes}; };
  if (num_rows <= kStreamedRows) {
    // They wait for memory and for little else: one panel after the other, each read once, by all rows together.
    for (int panel = begin; panel < end; ++panel) {
      const StreamedPanel<Format> source{packed(panel)};
      with_count<kStreamedRows>(num_rows, [&](auto rows) {
        quant_tile_out<Format, 1, decltype(rows)::value>(job, &source, panel, 0, blocks);
      });
    }
    return;
  }
  const int passes = num_rows < kMostPasses * kTileRows ? (num_rows + kTileRows - 1) / kTileRows : kMostPasses;
  for (int panel = begin; panel < end; panel += kTilePanels) {
    with_count<kTilePanels>(end - panel < kTilePanels ? end - panel : kTilePanels, [&](auto panels) {
      constexpr int count = decltype(panels)::value;
      const auto multiply = [&](auto& sources) {
        sources[0].next = next_panels<Format>(weights, panel, panel + count, passes);
        sources[0].ahead = job.ahead;
        quant_rows<Format, count>(job, sources, panel, num_rows, blocks);
      };
      if (num_rows <= kPackedRows) {
        RevisitedPanel<PackedPanel<Format>> sources[count];
        for (int p = 0; p < count; ++p) sources[p] = {packed(panel + p), {}, nullptr};
        return multiply(sources);
      }
      RevisitedPanel<UnpackedPanel> sources[count];
      for (int p = 0; p < count; ++p) {
        sources[p] = {unpack(packed(panel + p), blocks, scratch + std::int64_t{p} * blocks * (512 + 128)), {}, nullptr};
      }
      multiply(sources);
    });
  }
}

}  // namespace
}  // namespace halfline
