// The table of kernels, filled once per instruction path and chosen once per executor.
//
// Everything that rounds lives behind this table. Each path performs the same roundings in the same order
// (16 virtual lanes, explicit fused multiply-adds, integer dot products), so all paths agree bitwise.
#pragma once

#include <cstdint>

#include "packed.hpp"

namespace halfline {

// Rows prepared for a quantised linear: int8 in [-127, 127] with one scale per block of 32.
//
// Rows are grouped in tiles of `Kernels::tile_rows`, the last one shorter; tile t of height h holds
//   quants [block][h][32] · scales [block][h] · scaled_sums [block][h] · negated_sums [block][h][2]
// where scaled_sum = scale * sum of the block's quants, negated_sums = minus the sums of the whole block and of its
// first half.
//
// A refined row has a second term, what the first left over, quantised alike: x = s1 * q1 + s2 * q2 to about 15 bits.
// Second terms are rows of their own behind all first terms, and their products are added to those of the first.
struct QuantRows {
  std::int8_t* quants;
  float* scales;
  float* scaled_sums;
  std::int32_t* negated_sums;
};

// Some blocks of all that rows have: [first, first + count) of `all`.
struct Columns {
  int first, count, all;
};

// Where these blocks lie for the tile that holds `row`: quantising rows of that tile as if the blocks were all of them
// writes the blocks in their place.
inline QuantRows columns_of_tile(const QuantRows& rows, int tile_rows, int row, int num_rows, const Columns& columns) {
  const int first = row - row % tile_rows;
  const int height = num_rows - first < tile_rows ? num_rows - first : tile_rows;
  const std::int64_t before =
      std::int64_t{first} * (columns.all - columns.count) + std::int64_t{columns.first} * height;
  return {rows.quants + before * kBlockValues, rows.scales + before, rows.scaled_sums + before,
          rows.negated_sums + 2 * before};
}

// Memory that is read soon, of which products ask for a few lines at a time: those of a dozen rows and more leave memory
// idle. A worker's own.
struct ReadAhead {
  const std::uint8_t* memory = nullptr;
  std::int64_t piece_bytes = 0;
  // Pieces that are left, by their numbers; of the first of them, `done` bytes are asked for.
  const std::int32_t *next = nullptr, *end = nullptr;
  std::int64_t done = 0;

  // Into the second-level cache.
  void ask(int lines) {
    if (next == end) return;
    const std::uint8_t* line = memory + *next * piece_bytes + done;
    for (int i = 0; i < lines; ++i) __builtin_prefetch(line + i * 64, 0, 2);
    done += lines * 64;
    if (done < piece_bytes) return;
    done = 0;
    ++next;
  }
};

struct LinearJob {
  const PackedMatrix* weights;
  const float* bias;     // [panels * 16], or null
  int rows;
  const float* input;    // [rows, input_stride]: read by float formats
  std::int64_t input_stride;
  QuantRows quant;       // read by quantised formats
  float* output;         // [rows, output_stride]
  std::int64_t output_stride;
  bool accumulate;       // output += residual_scale * y instead of output = y
  float residual_scale;
  // Rows with a second term, in any order: the rows behind `rows` in quant.
  const std::int32_t* refined = nullptr;
  int num_refined = 0;
  ReadAhead* ahead = nullptr;   // of whoever runs the job
};

struct NormWeights {
  const float* weight;
  const float* bias;   // null without one
  float eps;
  bool subtract_mean;
};

// Row at place i sees j: see Mask in model/executor.py. No window is INT32_MAX.
struct MaskRule {
  std::int32_t window;
  std::int32_t num_sinks;
  std::int32_t prefix;
};

constexpr int kSlots = 16;   // places per block, BLOCK_TOKENS in Python

// How a block keeps the K and V of one head:
//   f16    K transposed [head_dim][16 places] | V [16 places][head_dim]
//   int8   the same in int8, then scales as floats: one per dimension of K [head_dim] | one per place of V [16]
enum class KvFormat { f16, int8 };

constexpr std::int64_t half_values(int head_dim) { return std::int64_t{2} * kSlots * head_dim; }

constexpr std::int64_t kv_head_bytes(KvFormat format, int head_dim) {
  return format == KvFormat::f16 ? 2 * half_values(head_dim) : half_values(head_dim) + (head_dim + kSlots) * 4;
}

// Where a block's fp16 places lie, of every layer and head; layout as in KvFormat::f16, strides in values.
struct HalfBlock {
  std::uint16_t* first_keys;
  std::uint16_t* first_values;
  std::int64_t layer_stride, head_stride;

  std::uint16_t* keys(int layer, int head) const { return first_keys + layer * layer_stride + head * head_stride; }
  std::uint16_t* values(int layer, int head) const { return first_values + layer * layer_stride + head * head_stride; }
};

// The blocks of a table, from number `first` on, that are read in fp16 although the format is another: those that hold
// the rows' own places, and what lies behind them.
struct HalfBlocks {
  std::int32_t first;
  const HalfBlock* blocks;
  int layer, head;

  const std::uint16_t* keys(int number) const { return blocks[number - first].keys(layer, head); }
  const std::uint16_t* values(int number) const { return blocks[number - first].values(layer, head); }
};

// One row and the query heads that share one KV head.
struct AttentionRow {
  const float* queries;   // of the group's first head; already rotated and scaled
  float* output;
  std::int32_t place;
  MaskRule mask;
};

// Rows that read the same blocks, of one sequence or of several that begin alike.
//
// KV is walked in chunks of four blocks, counted from place 0. A chunk's part of a query vector's result depends on
// nothing but that vector and the chunk, and parts are merged in the chunks' order. `attend` does both and writes
// [group][head_dim] to each row's output. `attend_parts` leaves the parts of its chunks there, chunk after chunk at a
// distance of part_stride floats, each [group] records of part_floats; `merge_parts` makes the same result of them.
struct AttentionTile {
  const AttentionRow* rows;
  int num_rows;
  int group_size;
  int head_dim;
  std::int32_t layer_window;         // the model's own band of this layer, on top of every mask
  const std::int32_t* block_table;
  KvFormat format;
  const std::uint8_t* kv;            // this layer's and head's part of block 0
  std::int64_t block_stride;         // in bytes
  HalfBlocks half_blocks;            // not read when the format is f16
  float* scratch;                    // attention_scratch floats, 64-byte aligned
};

struct ChunkRange {
  std::int32_t start, stop;
};

// A record of one query vector and chunk: the weighted values, then the highest score and the sum of the weights.
constexpr int part_floats(int head_dim) { return head_dim + 16; }

// The largest logits of each row, as TopLogits in model/executor.py tells. Nothing is wanted when count is 0.
struct TopLogits {
  int count = 0;
  std::int32_t* ids = nullptr;    // [rows][count]
  float* logits = nullptr;        // [rows][count]
  double* log_totals = nullptr;   // [rows]
};

struct Kernels {
  const char* name;
  int tile_rows;

  // One row: output = norm(x).
  void (*norm)(const float* x, const NormWeights& weights, int n, float* output);
  // Rows [row, row + count) of `num_rows`, all in one tile, of x [count][stride]; `n` is a multiple of 32.
  void (*quantise)(const float* x, std::int64_t stride, int count, int n, int row, int num_rows,
                   const QuantRows& output);
  // The second term of one row of x.
  void (*quantise_rest)(const float* x, int n, int row, int num_rows, const QuantRows& output);
  // output = silu(gate) * up, n a multiple of 16; output may be gate.
  void (*gate)(const float* gate, const float* up, int n, float* output);
  void (*gelu)(const float* x, int n, float* output);
  // Turns the pairs (i, i + half) of one head and multiplies the whole head by `scale`.
  void (*rotate)(float* head, const float* cosines, const float* sines, int half, int head_dim, float scale);
  // K of one place into its column of the transposed block, V into its row.
  void (*store_kv)(const float* key, const float* value, int head_dim, std::uint16_t* keys, std::uint16_t* values,
                   int slot);
  // One block and head, all of whose places are written, from f16 to int8.
  void (*quantise_kv)(const std::uint16_t* keys, const std::uint16_t* values, int head_dim, std::uint8_t* block);
  // Panels [begin, end) of one linear; scratch holds linear_scratch bytes.
  void (*linear)(const LinearJob& job, int begin, int end, std::uint8_t* scratch);
  void (*attend)(const AttentionTile& tile);
  void (*attend_parts)(const AttentionTile& tile, ChunkRange chunks, std::int64_t part_stride);
  // The parts of one query vector, at a distance of part_stride floats.
  void (*merge_parts)(const float* parts, int num_parts, std::int64_t part_stride, int head_dim, float* output);
  // The `count` largest of n logits and log(sum(e^logit)); 1 <= count <= n.
  void (*top)(const float* logits, int n, int count, std::int32_t* ids, float* largest, double* log_total);
  // The largest of each panel's logits, n in all; of a panel with a NaN any number.
  void (*peaks)(const float* logits, int n, float* peaks);
};

enum class Isa { portable, avx2, avx512vnni, amx };

// Where the matrix unit leaves its results, and a few blocks of weights on their way to it.
constexpr int kMatrixRingBytes = 8192;

// Bytes of scratch one worker needs for linears with at most this many columns.
constexpr std::int64_t linear_scratch_bytes(int max_cols) {
  return kMatrixRingBytes + std::int64_t{2} * (max_cols / kBlockValues + 1) * (512 + 2 * 64);
}

// An attention tile has at most max(kTileQueries, group_size) query vectors.
constexpr int kTileQueries = 48;
constexpr int kChunkBlocks = 4;   // blocks per chunk: part of the defined order of operations

constexpr std::int64_t attention_scratch_floats(int group_size, int head_dim) {
  const std::int64_t queries = (group_size > kTileQueries ? group_size : kTileQueries) + 16;
  const std::int64_t places = kChunkBlocks * kSlots;
  return queries * (places + head_dim + 64) + 2 * places * head_dim;
}

const Kernels& portable_kernels();
#ifdef HALFLINE_X86
const Kernels& avx2_kernels();
const Kernels& avx512vnni_kernels();
#endif
#ifdef HALFLINE_AMX
const Kernels& amx_kernels();
#endif

}  // namespace halfline
