// Attention of a tile of query vectors over paged fp16 KV, by online softmax.
//
// The order of operations of one query vector, which its tile mates do not change:
//   KV is walked in chunks of four blocks (64 places) counted from place 0. Per chunk
//     score[place] = one fused multiply-add per dimension, in order
//     largest' = max(largest, visible scores);  p = e^(score - largest'), 0 where the mask hides
//     total = fma(total, e^(largest - largest'), sum of p: four vectors in order, then the fixed tree)
//     output = output * e^(largest - largest'), then one fused multiply-add per place, in order
//   A chunk or block that this vector does not see changes nothing: its p are zero and the rescale is 1.
#pragma once

#include <cstdint>

#include "../kernels.hpp"
#include "counts.hpp"
#include "rows.hpp"

namespace halfline {
namespace {

constexpr int kChunkPlaces = kChunkBlocks * kSlots;
constexpr float kUnseen = -1e30f;   // below every score, and finite: kUnseen - kUnseen is 0

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
inline std::uint32_t visible_bits(const MaskRule& mask, std::int64_t place, std::int64_t start) {
  std::uint32_t bits = bits_within(band_start(place, mask.window), place + 1, start);
  bits |= bits_within(0, mask.num_sinks < place + 1 ? mask.num_sinks : place + 1, start);
  if (place < mask.prefix) bits |= bits_within(0, mask.prefix, start);
  return bits & bits_within(band_start(place, mask.layer_window), INT64_MAX / 2, start);
}

// ---- One chunk ------------------------------------------------------------------------------------------------

struct HalfKv {
  using Element = std::uint16_t;
  static Vec load(const std::uint16_t* p) { return Vec::load_half(p); }
};
struct FloatKv {
  using Element = float;
  static Vec load(const float* p) { return Vec::load(p); }
};

// The blocks of a chunk that some row of the tile sees.
template <class Kv>
struct Chunk {
  int count = 0;
  int position[kChunkBlocks];                         // which of the chunk's four blocks
  int places[kChunkBlocks];                           // places that hold something of value
  const typename Kv::Element* keys[kChunkBlocks];     // [head_dim][16]
  const typename Kv::Element* values[kChunkBlocks];   // [16][head_dim]
};

// queries: [head_dim][Queries]; scores: [Queries][kChunkPlaces]
template <class Kv, int Blocks, int Queries>
inline void score_tile(const Chunk<Kv>& chunk, int first, const float* queries, int head_dim, float* scores) {
  Vec sums[Blocks][Queries];
  for (int b = 0; b < Blocks; ++b) {
    for (int t = 0; t < Queries; ++t) sums[b][t] = Vec::zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    Vec keys[Blocks];
#pragma GCC unroll 4
    for (int b = 0; b < Blocks; ++b) keys[b] = Kv::load(chunk.keys[first + b] + d * kSlots);
#pragma GCC unroll 12
    for (int t = 0; t < Queries; ++t) {
      const Vec query = Vec::set(queries[d * Queries + t]);
#pragma GCC unroll 4
      for (int b = 0; b < Blocks; ++b) sums[b][t] = fma(keys[b], query, sums[b][t]);
    }
  }
  for (int b = 0; b < Blocks; ++b) {
    for (int t = 0; t < Queries; ++t) {
      sums[b][t].store(scores + t * kChunkPlaces + chunk.position[first + b] * kSlots);
    }
  }
}

template <class Kv, int Queries>
inline void score_chunk(const Chunk<Kv>& chunk, const float* queries, int head_dim, float* scores) {
  // Few queries: several blocks at once, to have enough independent sums in flight.
  constexpr int blocks = Queries * 4 <= kQueryTile ? 4 : Queries * 2 <= kQueryTile ? 2 : 1;
  int first = 0;
  for (; first + blocks <= chunk.count; first += blocks) {
    score_tile<Kv, blocks, Queries>(chunk, first, queries, head_dim, scores);
  }
  if constexpr (blocks > 1) {
    for (; first < chunk.count; ++first) score_tile<Kv, 1, Queries>(chunk, first, queries, head_dim, scores);
  }
}

// Turns scores into weights in place; returns the factor by which the output so far must shrink.
template <class Kv>
inline float weigh(const Chunk<Kv>& chunk, const std::uint16_t* visible, float* scores, float& highest, float& total) {
  Vec top = Vec::set(kUnseen);
  for (int b = 0; b < chunk.count; ++b) {
    const int at = chunk.position[b];
    top = max(top, select(visible[at], Vec::load(scores + at * kSlots), Vec::set(kUnseen)));
  }
  const float tallest = largest(top);
  const float next = tallest > highest ? tallest : highest;
  Vec sums = Vec::zero();
  for (int b = 0; b < chunk.count; ++b) {
    const int at = chunk.position[b];
    const Vec weight = select(visible[at], exp_of(Vec::load(scores + at * kSlots) - Vec::set(next)), Vec::zero());
    weight.store(scores + at * kSlots);
    sums = sums + weight;
  }
  float shrink[16];
  exp_of(Vec::set(highest - next)).store(shrink);
  total = __builtin_fmaf(total, shrink[0], sum(sums));
  highest = next;
  return shrink[0];
}

// outputs[t] is shrunk, then gains weights[t] x V, over Vectors * 16 dimensions.
template <class Kv, int Queries, int Vectors>
inline void gather_tile(const Chunk<Kv>& chunk, int head_dim, int dimension, const float* weights,
                        const float* shrinks, float* const* outputs) {
  Vec sums[Queries][Vectors];
  for (int t = 0; t < Queries; ++t) {
    for (int v = 0; v < Vectors; ++v) {
      sums[t][v] = Vec::load(outputs[t] + dimension + 16 * v) * Vec::set(shrinks[t]);
    }
  }
  for (int b = 0; b < chunk.count; ++b) {
    const auto* values = chunk.values[b] + dimension;
    const float* block_weights = weights + chunk.position[b] * kSlots;
    for (int slot = 0; slot < chunk.places[b]; ++slot) {
      Vec value[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) value[v] = Kv::load(values + slot * head_dim + 16 * v);
#pragma GCC unroll 8
      for (int t = 0; t < Queries; ++t) {
        const Vec weight = Vec::set(block_weights[t * kChunkPlaces + slot]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sums[t][v] = fma(weight, value[v], sums[t][v]);
      }
    }
  }
  for (int t = 0; t < Queries; ++t) {
    for (int v = 0; v < Vectors; ++v) sums[t][v].store(outputs[t] + dimension + 16 * v);
  }
}

template <class Kv>
inline void gather(const Chunk<Kv>& chunk, int head_dim, int num_queries, const float* weights, const float* shrinks,
                   float* const* outputs) {
  for (int first = 0; first < num_queries; first += kValueRows) {
    const int count = num_queries - first < kValueRows ? num_queries - first : kValueRows;
    with_count<kValueRows>(count, [&](auto queries) {
      for (int d = 0; d < head_dim; d += 16 * kValueVectors) {
        const int rest = (head_dim - d) / 16;
        with_count<kValueVectors>(rest < kValueVectors ? rest : kValueVectors, [&](auto vectors) {
          gather_tile<Kv, decltype(queries)::value, decltype(vectors)::value>(
              chunk, head_dim, d, weights + first * kChunkPlaces, shrinks + first, outputs + first);
        });
      }
    });
  }
}

// ---- The tile -------------------------------------------------------------------------------------------------

// The tile's working memory, cut out of AttentionTile::scratch. Query vector r * group_size + h is head h of row r.
struct TileState {
  int num_queries;
  float* queries;    // tiles of kQueryTile (the last one narrower), each [head_dim][tile]
  float* scores;     // [num_queries][kChunkPlaces]
  float* highest;    // [num_queries]
  float* totals;     // [num_queries]
  float* shrinks;    // [num_queries]
  float** outputs;   // [num_queries]
  std::uint16_t* visible;   // [rows][kChunkBlocks]
  float* unpacked;   // [kChunkBlocks] x (K | V) as floats
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
  state.highest = take(padded);
  state.totals = take(padded);
  state.shrinks = take(padded);
  state.outputs = reinterpret_cast<float**>(take(2 * padded));
  state.visible = reinterpret_cast<std::uint16_t*>(take(2 * padded));

  for (int query = 0; query < queries; ++query) {
    const std::int64_t at = (query / tile.group_size) * tile.row_stride + (query % tile.group_size) * dim;
    const int first = query - query % kQueryTile;
    const int width = queries - first < kQueryTile ? queries - first : kQueryTile;
    float* column = state.queries + first * dim + (query - first);
    for (int d = 0; d < dim; ++d) column[d * width] = tile.queries[at + d];
    state.outputs[query] = tile.output + at;
    for (int d = 0; d < dim; d += 16) Vec::zero().store(tile.output + at + d);
    state.highest[query] = kUnseen;
    state.totals[query] = 0.0f;
  }
  return state;
}

// Fills in which blocks of the chunk from block `first_block` anybody sees; false if none.
inline bool look_at_chunk(const AttentionTile& tile, std::int32_t first_block, TileState& state,
                          Chunk<HalfKv>& chunk) {
  chunk.count = 0;
  for (int position = 0; position < kChunkBlocks; ++position) {
    const std::int64_t start = (std::int64_t{first_block} + position) * kSlots;
    std::uint32_t anybody = 0;
    for (int row = 0; row < tile.num_rows; ++row) {
      const std::uint32_t bits = visible_bits(tile.mask, std::int64_t{tile.first_place} + row, start);
      state.visible[row * kChunkBlocks + position] = static_cast<std::uint16_t>(bits);
      anybody |= bits;
    }
    if (!anybody) continue;
    const std::uint16_t* block = tile.kv + tile.block_table[first_block + position] * tile.block_stride;
    chunk.position[chunk.count] = position;
    // Places behind the last visible one may never have been written: their V must not be touched.
    chunk.places[chunk.count] = 32 - __builtin_clz(anybody);
    chunk.keys[chunk.count] = block;
    chunk.values[chunk.count] = block + tile.head_dim * kSlots;
    ++chunk.count;
  }
  return chunk.count > 0;
}

inline Chunk<FloatKv> unpack_chunk(const Chunk<HalfKv>& packed, int head_dim, float* unpacked) {
  Chunk<FloatKv> chunk;
  chunk.count = packed.count;
  for (int b = 0; b < packed.count; ++b) {
    float* block = unpacked + std::int64_t{b} * 2 * kSlots * head_dim;
    for (int i = 0; i < 2 * kSlots * head_dim; i += 16) Vec::load_half(packed.keys[b] + i).store(block + i);
    chunk.position[b] = packed.position[b];
    chunk.places[b] = packed.places[b];
    chunk.keys[b] = block;
    chunk.values[b] = block + kSlots * head_dim;
  }
  return chunk;
}

template <class Kv>
inline void attend_chunk(const AttentionTile& tile, const Chunk<Kv>& chunk, TileState& state) {
  for (int first = 0; first < state.num_queries; first += kQueryTile) {
    const int rest = state.num_queries - first;
    with_count<kQueryTile>(rest < kQueryTile ? rest : kQueryTile, [&](auto queries) {
      score_chunk<Kv, decltype(queries)::value>(chunk, state.queries + first * tile.head_dim, tile.head_dim,
                                                state.scores + first * kChunkPlaces);
    });
  }
  for (int query = 0; query < state.num_queries; ++query) {
    const std::uint16_t* visible = state.visible + (query / tile.group_size) * kChunkBlocks;
    state.shrinks[query] = weigh(chunk, visible, state.scores + query * kChunkPlaces, state.highest[query],
                                 state.totals[query]);
  }
  gather(chunk, tile.head_dim, state.num_queries, state.scores, state.shrinks, state.outputs);
}

inline void attend_tile(const AttentionTile& tile) {
  TileState state = begin_tile(tile);
  const MaskRule& mask = tile.mask;
  const std::int64_t first = tile.first_place, last = first + tile.num_rows - 1;
  const std::int64_t stop = (first < mask.prefix && mask.prefix > last + 1) ? mask.prefix : last + 1;
  const std::int64_t sinks_stop = mask.num_sinks < stop ? mask.num_sinks : stop;
  const bool whole_prefix = first < mask.prefix;
  const std::int64_t window_start = whole_prefix ? 0 : band_start(first, mask.window);
  const std::int64_t layer_start = band_start(first, mask.layer_window);
  const std::int64_t band = window_start > layer_start ? window_start : layer_start;

  for (std::int64_t start = 0; start < stop; start += kChunkPlaces) {
    // Between the sinks and the band nobody sees anything: jump, or a long context would cost O(n) per row.
    if (start >= sinks_stop && start + kChunkPlaces <= band) {
      start = band / kChunkPlaces * kChunkPlaces;
    }
    Chunk<HalfKv> chunk;
    if (!look_at_chunk(tile, static_cast<std::int32_t>(start / kSlots), state, chunk)) continue;
    // Converting pays once several passes read the result; the numbers are the same.
    if (state.num_queries > kQueryTile) {
      attend_chunk(tile, unpack_chunk(chunk, tile.head_dim, state.unpacked), state);
    } else {
      attend_chunk(tile, chunk, state);
    }
  }
  for (int query = 0; query < state.num_queries; ++query) {
    const Vec share = Vec::set(1.0f / state.totals[query]);
    for (int d = 0; d < tile.head_dim; d += 16) {
      (Vec::load(state.outputs[query] + d) * share).store(state.outputs[query] + d);
    }
  }
}

}  // namespace
}  // namespace halfline
