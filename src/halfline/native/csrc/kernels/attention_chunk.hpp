// One chunk of KV and the query vectors that read it: scores, weights, weighted values.
//
// The order of operations of one query vector, which those beside it do not change:
//     score[place] = one fused multiply-add per dimension, in order, of K, times the dimension's scale if it has one
//     highest = max(visible scores);  weight = e^(score - highest), 0 where the mask hides
//     total = sum of weights: four vectors in order, then the fixed tree
//     part = one fused multiply-add per place, in order, of the weight, times the place's scale of V, and V
#pragma once

#include <cstdint>

#include "../kernels.hpp"
#include "counts.hpp"
#include "rows.hpp"

namespace halfline {
namespace {

constexpr int kChunkPlaces = kChunkBlocks * kSlots;
constexpr float kUnseen = -1e30f;   // below every score, and finite: kUnseen - kUnseen is 0

// How a chunk's blocks are read.
struct HalfKv {
  using Element = std::uint16_t;
  static constexpr bool kScaledKeys = false, kScaledValues = false;
  static Vec load(const std::uint16_t* p) { return Vec::load_half(p); }
};
struct Int8Kv {
  using Element = std::uint8_t;
  static constexpr bool kScaledKeys = true, kScaledValues = true;
  static Vec load(const std::uint8_t* p) { return Vec::load_i8(p); }
};
// Unpacked, K with its scale.
template <bool ScaledValues>
struct FloatKv {
  using Element = float;
  static constexpr bool kScaledKeys = false, kScaledValues = ScaledValues;
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
  const float* key_scales[kChunkBlocks];              // [head_dim], if scaled
  const float* value_scales[kChunkBlocks];            // [16], if scaled
};

// queries: [head_dim][Queries]; scores: [Queries][kChunkPlaces]
template <class Kv, int Blocks, int Queries>
inline void score_tile(const Chunk<Kv>& chunk, int first, const float* queries, int head_dim, float* scores) {
  Vec sums[Blocks][Queries];
#pragma GCC unroll 4
  for (int b = 0; b < Blocks; ++b) {
#pragma GCC unroll 12
    for (int t = 0; t < Queries; ++t) sums[b][t] = Vec::zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    Vec keys[Blocks];
#pragma GCC unroll 4
    for (int b = 0; b < Blocks; ++b) {
      keys[b] = Kv::load(chunk.keys[first + b] + d * kSlots);
      if constexpr (Kv::kScaledKeys) keys[b] = keys[b] * Vec::set(chunk.key_scales[first + b][d]);
    }
#pragma GCC unroll 12
    for (int t = 0; t < Queries; ++t) {
      const Vec query = Vec::set(queries[d * Queries + t]);
#pragma GCC unroll 4
      for (int b = 0; b < Blocks; ++b) sums[b][t] = fma(keys[b], query, sums[b][t]);
    }
  }
#pragma GCC unroll 4
  for (int b = 0; b < Blocks; ++b) {
    float* block_scores = scores + chunk.position[first + b] * kSlots;
#pragma GCC unroll 12
    for (int t = 0; t < Queries; ++t) sums[b][t].store(block_scores + t * kChunkPlaces);
  }
}

template <class Kv, int Queries>
inline void score_chunk(const Chunk<Kv>& chunk, const float* queries, int head_dim, float* scores) {
  // Several blocks at once: enough independent sums in flight, and a query is loaded once for all of them.
  constexpr int blocks = Queries * 4 <= kScoreSums ? 4 : Queries * 2 <= kScoreSums ? 2 : 1;
  int first = 0;
  for (; first + blocks <= chunk.count; first += blocks) {
    score_tile<Kv, blocks, Queries>(chunk, first, queries, head_dim, scores);
  }
  if constexpr (blocks > 1) {
    for (; first < chunk.count; ++first) score_tile<Kv, 1, Queries>(chunk, first, queries, head_dim, scores);
  }
}

// Turns the scores of `count` query vectors, at most 16, into what V is to be multiplied by, in place. Sixteen of highest
// and totals are written; visible_of(query) are the bits of the chunk's four blocks.
template <class Kv, int Blocks, class F>
inline void weigh_blocks(const Chunk<Kv>& chunk, int count, float* scores, float* highest, float* totals,
                         F&& visible_of) {
  const auto score = [&](int query, int b) { return scores + query * kChunkPlaces + chunk.position[b] * kSlots; };
  Vec tops[16], sums[16];
  for (int query = 0; query < 16; ++query) {
    tops[query] = Vec::set(kUnseen);
    sums[query] = Vec::zero();
  }
  for (int query = 0; query < count; ++query) {
    const std::uint16_t* visible = visible_of(query);
#pragma GCC unroll 4
    for (int b = 0; b < Blocks; ++b) {
      const Vec seen = select(visible[chunk.position[b]], Vec::load(score(query, b)), Vec::set(kUnseen));
      tops[query] = max(tops[query], seen);
    }
  }
  largest_each(tops).store(highest);
  for (int query = 0; query < count; ++query) {
    const std::uint16_t* visible = visible_of(query);
    Vec weights[Blocks];
#pragma GCC unroll 4
    for (int b = 0; b < Blocks; ++b) weights[b] = Vec::load(score(query, b)) - Vec::set(highest[query]);
    exp_each(weights);
#pragma GCC unroll 4
    for (int b = 0; b < Blocks; ++b) {
      Vec weight = select(visible[chunk.position[b]], weights[b], Vec::zero());
      sums[query] = sums[query] + weight;
      if constexpr (Kv::kScaledValues) weight = weight * Vec::load(chunk.value_scales[b]);
      weight.store(score(query, b));
    }
  }
  sum_each(sums).store(totals);
}

template <class Kv, class F>
inline void weigh(const Chunk<Kv>& chunk, int count, float* scores, float* highest, float* totals, F&& visible_of) {
  with_count<kChunkBlocks>(chunk.count, [&](auto blocks) {
    weigh_blocks<Kv, decltype(blocks)::value>(chunk, count, scores, highest, totals, visible_of);
  });
}

// finish(t, dimension, sum) is handed weights[t] x V, over Vectors * 16 dimensions.
template <class Kv, int Queries, int Vectors, class F>
inline void gather_tile(const Chunk<Kv>& chunk, int head_dim, int dimension, const float* weights, F&& finish) {
  Vec sums[Queries][Vectors];
#pragma GCC unroll 8
  for (int t = 0; t < Queries; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sums[t][v] = Vec::zero();
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
#pragma GCC unroll 8
  for (int t = 0; t < Queries; ++t) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) finish(t, dimension + 16 * v, sums[t][v]);
  }
}

// finish(query, dimension, sum)
template <class Kv, class F>
inline void gather(const Chunk<Kv>& chunk, int head_dim, int num_queries, const float* weights, F&& finish) {
  for (int first = 0; first < num_queries; first += kValueRows) {
    const int count = num_queries - first < kValueRows ? num_queries - first : kValueRows;
    with_count<kValueRows>(count, [&](auto queries) {
      for (int d = 0; d < head_dim; d += 16 * kValueVectors) {
        const int rest = (head_dim - d) / 16;
        with_count<kValueVectors>(rest < kValueVectors ? rest : kValueVectors, [&](auto vectors) {
          gather_tile<Kv, decltype(queries)::value, decltype(vectors)::value>(
              chunk, head_dim, d, weights + first * kChunkPlaces,
              [&](int t, int dimension, Vec sum) { finish(first + t, dimension, sum); });
        });
      }
    });
  }
}

// Adds up the parts of one query vector after another: lane i is vector i.
struct Merge {
  Vec keep, gain;   // result' = result * keep + part * gain
};

inline Merge merge_totals(Vec part_highest, Vec part_total, float* highest, float* totals) {
  const Vec before = Vec::load(highest);
  const Vec next = max(part_highest, before);
  const Merge merge{exp_of(before - next), exp_of(part_highest - next)};
  fma(Vec::load(totals), merge.keep, part_total * merge.gain).store(totals);
  next.store(highest);
  return merge;
}

inline Vec merged(Vec result, Vec part, float keep, float gain) {
  return fma(result, Vec::set(keep), part * Vec::set(gain));
}

}  // namespace
}  // namespace halfline
