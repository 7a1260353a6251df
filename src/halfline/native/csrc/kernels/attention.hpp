// Attention of tiles of query vectors over paged KV: which blocks somebody sees, and the merging of chunks.
//
// Chunks are merged in order, from nothing seen (highest = kUnseen, total = 0, result = 0):
//     highest' = max(highest of the chunk, highest);  keep = e^(highest - highest'), gain = e^(the chunk's - highest')
//     total = fma(total, keep, the chunk's * gain);    result = fma(result, keep, part * gain)
// A chunk of which a vector sees nothing is left out. At last the result is multiplied by 1 / total.
#pragma once

#include <cstdint>

#include "attention_chunk.hpp"

namespace halfline {
namespace {

// ---- Masks ----------------------------------------------------------------------------------------------------

// Bits of the 16 places from `start` that lie within [low, high).
inline std::uint32_t bits_within(std::int64_t low, std::int64_t high, std::int64_t start) {
  const auto clamp = [&](std::int64_t place) {
    const std::int64_t offset = place - start;
    return static_cast<int>(offset < 0 ? 0 : offset > kSlots ? kSlots : offset);
  };
  return ((1u << clamp(high)) - 1u) & ~((1u << clamp(low)) - 1u);
}

inline std::int64_t band_start(std::int64_t place, std::int32_t window) {
  return place >= window ? place - window + 1 : 0;
}

// Which places of the block from `start` the row at `place` sees.
inline std::uint32_t visible_bits(const MaskRule& mask, std::int32_t layer_window, std::int64_t place,
                                  std::int64_t start) {
  // Most rows see all that is before them.
  if (mask.window == INT32_MAX && layer_window == INT32_MAX && place >= mask.prefix) {
    return bits_within(0, place + 1, start);
  }
  std::uint32_t bits = bits_within(band_start(place, mask.window), place + 1, start);
  bits |= bits_within(0, mask.num_sinks < place + 1 ? mask.num_sinks : place + 1, start);
  if (place < mask.prefix) bits |= bits_within(0, mask.prefix, start);
  return bits & bits_within(band_start(place, layer_window), INT64_MAX / 2, start);
}

// The chunks that a tile has to look at: [0, sinks_stop) and [band_start, stop).
struct ChunkSpan {
  std::int32_t sinks_stop, band_start, stop;
};

inline ChunkSpan span_of(const AttentionTile& tile) {
  std::int64_t sinks_stop = 0, band = INT64_MAX, stop = 0;
  for (int i = 0; i < tile.num_rows; ++i) {
    const AttentionRow& row = tile.rows[i];
    const MaskRule& mask = row.mask;
    const bool in_prefix = row.place < mask.prefix;
    const std::int64_t row_stop = in_prefix ? mask.prefix : std::int64_t{row.place} + 1;
    const std::int64_t row_sinks = mask.num_sinks < row_stop ? mask.num_sinks : row_stop;
    const std::int64_t window = in_prefix ? 0 : band_start(row.place, mask.window);
    const std::int64_t layer = band_start(row.place, tile.layer_window);
    const std::int64_t row_band = window > layer ? window : layer;
    if (row_stop > stop) stop = row_stop;
    if (row_sinks > sinks_stop) sinks_stop = row_sinks;
    if (row_band < band) band = row_band;
  }
  const auto chunks = [](std::int64_t places) {
    return static_cast<std::int32_t>((places + kChunkPlaces - 1) / kChunkPlaces);
  };
  return {chunks(sinks_stop), static_cast<std::int32_t>(band / kChunkPlaces), chunks(stop)};
}

// ---- The tile -------------------------------------------------------------------------------------------------

// The tile's working memory, cut out of AttentionTile::scratch. Query vector r * group_size + h is head h of row r;
// arrays of one number per vector are filled up to whole vectors of 16.
struct TileState {
  int num_queries;
  float* queries;         // tiles of kQueryTile (the last one narrower), each [head_dim][tile]
  float* scores;          // [num_queries][kChunkPlaces]
  float *part_highest, *part_totals;
  float *highest, *totals;
  float *keeps, *gains;
  float** outputs;        // [num_queries]
  std::uint16_t* visible;   // [rows][kChunkBlocks]
  float* unpacked;        // [kChunkBlocks] x (K | V) as floats
};

inline TileState begin_tile(const AttentionTile& tile) {
  const int queries = tile.num_rows * tile.group_size, dim = tile.head_dim;
  const int padded = (queries + 15) / 16 * 16;
  TileState state;
  state.num_queries = queries;
  float* next = tile.scratch;
  const auto take = [&](int floats) {
    float* taken = next;
    next += floats;
    return taken;
  };
  state.unpacked = take(2 * kChunkPlaces * dim);
  state.scores = take(padded * kChunkPlaces);
  state.queries = take(padded * dim);
  for (float** each : {&state.part_highest, &state.part_totals, &state.highest, &state.totals, &state.keeps,
                       &state.gains}) {
    *each = take(padded);
    for (int i = 0; i < padded; ++i) (*each)[i] = 0.0f;
  }
  state.outputs = reinterpret_cast<float**>(take(2 * padded));
  state.visible = reinterpret_cast<std::uint16_t*>(take(2 * padded));

  for (int query = 0; query < queries; ++query) {
    const AttentionRow& row = tile.rows[query / tile.group_size];
    const int head = query % tile.group_size;
    const int first = query - query % kQueryTile;
    const int width = queries - first < kQueryTile ? queries - first : kQueryTile;
    float* column = state.queries + first * dim + (query - first);
    for (int d = 0; d < dim; ++d) column[d * width] = row.queries[head * dim + d];
    state.outputs[query] = row.output + head * dim;
    state.highest[query] = kUnseen;
  }
  return state;
}

// Which blocks of a chunk somebody sees, and where they lie.
struct SeenBlocks {
  int count = 0;
  int position[kChunkBlocks];
  int places[kChunkBlocks];
  std::int32_t number[kChunkBlocks];   // in the block table
  bool any_half = false;               // some of them are of HalfBlocks

  const std::uint8_t* stored(const AttentionTile& tile, int b) const {
    return tile.kv + tile.block_table[number[b]] * tile.block_stride;
  }
};

inline SeenBlocks look_at_chunk(const AttentionTile& tile, std::int32_t chunk, TileState& state) {
  SeenBlocks seen;
  for (int position = 0; position < kChunkBlocks; ++position) {
    const std::int32_t number = chunk * kChunkBlocks + position;
    std::uint32_t anybody = 0;
    for (int row = 0; row < tile.num_rows; ++row) {
      const std::uint32_t bits = visible_bits(tile.rows[row].mask, tile.layer_window, tile.rows[row].place,
                                              std::int64_t{number} * kSlots);
      state.visible[row * kChunkBlocks + position] = static_cast<std::uint16_t>(bits);
      anybody |= bits;
    }
    if (!anybody) continue;
    seen.position[seen.count] = position;
    // Places behind the last visible one may never have been written: their V must not be touched.
    seen.places[seen.count] = 32 - __builtin_clz(anybody);
    seen.number[seen.count] = number;
    seen.any_half |= number >= tile.half_blocks.first;
    ++seen.count;
  }
  return seen;
}

template <class Kv>
inline Chunk<Kv> chunk_of(const SeenBlocks& seen) {
  Chunk<Kv> chunk;
  chunk.count = seen.count;
  for (int b = 0; b < seen.count; ++b) {
    chunk.position[b] = seen.position[b];
    chunk.places[b] = seen.places[b];
  }
  return chunk;
}

inline Chunk<HalfKv> half_chunk(const AttentionTile& tile, const SeenBlocks& seen) {
  auto chunk = chunk_of<HalfKv>(seen);
  for (int b = 0; b < seen.count; ++b) {
    chunk.keys[b] = reinterpret_cast<const std::uint16_t*>(seen.stored(tile, b));
    chunk.values[b] = chunk.keys[b] + tile.head_dim * kSlots;
  }
  return chunk;
}

inline Chunk<Int8Kv> int8_chunk(const AttentionTile& tile, const SeenBlocks& seen) {
  auto chunk = chunk_of<Int8Kv>(seen);
  for (int b = 0; b < seen.count; ++b) {
    chunk.keys[b] = seen.stored(tile, b);
    chunk.values[b] = chunk.keys[b] + tile.head_dim * kSlots;
    chunk.key_scales[b] = reinterpret_cast<const float*>(chunk.values[b] + tile.head_dim * kSlots);
    chunk.value_scales[b] = chunk.key_scales[b] + tile.head_dim;
  }
  return chunk;
}

// As floats, which are the same numbers. V without scales gets ones, which change nothing.
template <bool Scaled>
inline Chunk<FloatKv<Scaled>> unpacked_chunk(const AttentionTile& tile, const SeenBlocks& seen, float* unpacked) {
  static constexpr float ones[kSlots] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const int values = tile.head_dim * kSlots;
  auto chunk = chunk_of<FloatKv<Scaled>>(seen);
  for (int b = 0; b < seen.count; ++b) {
    float* keys = unpacked + std::int64_t{b} * 2 * values;
    chunk.keys[b] = keys;
    chunk.values[b] = keys + values;
    chunk.value_scales[b] = ones;
    const std::uint8_t* stored = seen.stored(tile, b);
    const HalfBlocks& halves = tile.half_blocks;
    if (Scaled && seen.number[b] < halves.first) {
      const auto* scales = reinterpret_cast<const float*>(stored + 2 * values);
      for (int d = 0; d < tile.head_dim; ++d) {
        (Vec::load_i8(stored + d * kSlots) * Vec::set(scales[d])).store(keys + d * kSlots);
      }
      for (int i = values; i < 2 * values; i += 16) Vec::load_i8(stored + i).store(keys + i);
      chunk.value_scales[b] = scales + tile.head_dim;
      continue;
    }
    const auto* half_keys = reinterpret_cast<const std::uint16_t*>(stored);
    const auto* half_values = half_keys + values;
    if constexpr (Scaled) {
      half_keys = halves.keys(seen.number[b]);
      half_values = halves.values(seen.number[b]);
    }
    for (int i = 0; i < values; i += 16) Vec::load_half(half_keys + i).store(keys + i);
    for (int i = 0; i < seen.places[b] * tile.head_dim; i += 16) {
      Vec::load_half(half_values + i).store(keys + values + i);
    }
  }
  return chunk;
}

// Calls work(chunk) with the chunk in the form that is read fastest. Converting pays once several passes read the
// result.
template <class F>
inline void with_chunk(const AttentionTile& tile, const SeenBlocks& seen, const TileState& state, F&& work) {
  const bool several_passes = state.num_queries > kQueryTile;
  if (tile.format == KvFormat::f16) {
    if (several_passes) return work(unpacked_chunk<false>(tile, seen, state.unpacked));
    return work(half_chunk(tile, seen));
  }
  if (several_passes || seen.any_half) return work(unpacked_chunk<true>(tile, seen, state.unpacked));
  work(int8_chunk(tile, seen));
}

// Scores become weights; part_highest and part_totals are the chunk's.
template <class Kv>
inline void weigh_chunk(const AttentionTile& tile, const Chunk<Kv>& chunk, TileState& state) {
  for (int first = 0; first < state.num_queries; first += kQueryTile) {
    const int rest = state.num_queries - first;
    with_count<kQueryTile>(rest < kQueryTile ? rest : kQueryTile, [&](auto queries) {
      score_chunk<Kv, decltype(queries)::value>(chunk, state.queries + first * tile.head_dim, tile.head_dim,
                                                state.scores + first * kChunkPlaces);
    });
  }
  for (int first = 0; first < state.num_queries; first += 16) {
    const int rest = state.num_queries - first;
    weigh(chunk, rest < 16 ? rest : 16, state.scores + first * kChunkPlaces, state.part_highest + first,
          state.part_totals + first,
          [&](int query) { return state.visible + (first + query) / tile.group_size * kChunkBlocks; });
  }
}

inline void attend_tile(const AttentionTile& tile) {
  TileState state = begin_tile(tile);
  for (int query = 0; query < state.num_queries; ++query) {
    for (int d = 0; d < tile.head_dim; d += 16) Vec::zero().store(state.outputs[query] + d);
  }
  const ChunkSpan span = span_of(tile);
  for (std::int32_t number = 0; number < span.stop; ++number) {
    // Between the sinks and the band nobody sees anything: jump, or a long context would cost O(n) per row.
    if (number >= span.sinks_stop && number < span.band_start) number = span.band_start;
    const SeenBlocks seen = look_at_chunk(tile, number, state);
    if (seen.count == 0) continue;
    with_chunk(tile, seen, state, [&](const auto& chunk) {
      weigh_chunk(tile, chunk, state);
      for (int first = 0; first < state.num_queries; first += 16) {
        const Merge merge = merge_totals(Vec::load(state.part_highest + first), Vec::load(state.part_totals + first),
                                         state.highest + first, state.totals + first);
        merge.keep.store(state.keeps + first);
        merge.gain.store(state.gains + first);
      }
      gather(chunk, tile.head_dim, state.num_queries, state.scores, [&](int query, int dimension, Vec part) {
        if (state.part_totals[query] == 0.0f) return;
        float* output = state.outputs[query] + dimension;
        merged(Vec::load(output), part, state.keeps[query], state.gains[query]).store(output);
      });
    });
  }
  for (int query = 0; query < state.num_queries; ++query) {
    const Vec share = Vec::set(1.0f / state.totals[query]);
    for (int d = 0; d < tile.head_dim; d += 16) {
      (Vec::load(state.outputs[query] + d) * share).store(state.outputs[query] + d);
    }
  }
}

// ---- Parts ----------------------------------------------------------------------------------------------------

inline void attend_parts(const AttentionTile& tile, ChunkRange chunks, std::int64_t part_stride) {
  TileState state = begin_tile(tile);
  const int dim = tile.head_dim;
  for (std::int32_t number = chunks.start; number < chunks.stop; ++number) {
    const auto record = [&](int query) {
      return tile.rows[query / tile.group_size].output + (number - chunks.start) * part_stride +
             query % tile.group_size * part_floats(dim);
    };
    const SeenBlocks seen = look_at_chunk(tile, number, state);
    if (seen.count == 0) {
      for (int query = 0; query < state.num_queries; ++query) record(query)[dim + 1] = 0.0f;
      continue;
    }
    with_chunk(tile, seen, state, [&](const auto& chunk) {
      weigh_chunk(tile, chunk, state);
      for (int query = 0; query < state.num_queries; ++query) {
        record(query)[dim] = state.part_highest[query];
        record(query)[dim + 1] = state.part_totals[query];
      }
      gather(chunk, dim, state.num_queries, state.scores,
             [&](int query, int dimension, Vec part) { part.store(record(query) + dimension); });
    });
  }
}

inline void merge_parts(const float* parts, int num_parts, std::int64_t part_stride, int head_dim, float* output) {
  float highest = kUnseen, total = 0.0f;
  for (int d = 0; d < head_dim; d += 16) Vec::zero().store(output + d);
  for (int first = 0; first < num_parts; first += 16) {
    // The factors of 16 parts at once; lane i belongs to part first + i.
    const int count = num_parts - first < 16 ? num_parts - first : 16;
    float drops[16] = {}, rises[16] = {}, totals[16] = {};
    for (int i = 0; i < count; ++i) {
      const float* summary = parts + (first + i) * part_stride + head_dim;
      totals[i] = summary[1];
      if (totals[i] == 0.0f) continue;
      const float next = summary[0] > highest ? summary[0] : highest;
      drops[i] = highest - next;
      rises[i] = summary[0] - next;
      highest = next;
    }
    exp_of(Vec::load(drops)).store(drops);
    exp_of(Vec::load(rises)).store(rises);
    for (int i = 0; i < count; ++i) {
      if (totals[i] == 0.0f) continue;
      total = __builtin_fmaf(total, drops[i], totals[i] * rises[i]);
      const float* part = parts + (first + i) * part_stride;
      for (int d = 0; d < head_dim; d += 16) {
        merged(Vec::load(output + d), Vec::load(part + d), drops[i], rises[i]).store(output + d);
      }
    }
  }
  const Vec share = Vec::set(1.0f / total);
  for (int d = 0; d < head_dim; d += 16) (Vec::load(output + d) * share).store(output + d);
}

}  // namespace
}  // namespace halfline
