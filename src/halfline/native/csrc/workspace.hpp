// What the workers of a pass share: the team itself, the KV, the batch's plan, and memory for everything between the
// layers and within one.
//
// Knows how much room a model and a batch need; not what is computed in it.
#pragma once

#include <cstdint>
#include <vector>

#include "batch_plan.hpp"
#include "isa.hpp"
#include "kernels.hpp"
#include "kv_writes.hpp"
#include "memory.hpp"
#include "model_shape.hpp"
#include "rotations.hpp"
#include "team.hpp"

namespace halfline {

constexpr int round_up(int value, int step) { return (value + step - 1) / step * step; }

// Room for rows of quantised activations, and the same room cut into its parts.
std::size_t quant_rows_bytes(int rows, int cols);
QuantRows quant_rows(const Memory& memory, int rows, int cols);

// Rows, times blocks of columns, that a worker keeps of gate and of up: a quarter of a megabyte. Two blocks of
// a whole slab's rows took 3 % less of a prefill than one (Zen 5): quantising wants sixteen of a tile's blocks at once.
constexpr int kInnerRowBlocks = 2 * kSlabRows;
constexpr int kInnerFloats = 2 * kInnerRowBlocks * kBlockValues;

// What is kept of a row's logits where only its token is chosen: the largest of each panel, then of sixteen of these.
constexpr int num_peaks(int vocab_size) {
  const int panels = (vocab_size + kPanelRows - 1) / kPanelRows;
  return panels + (panels + kPanelRows - 1) / kPanelRows;
}

// What one worker needs for itself, in cache lines of its own.
struct alignas(64) WorkerRoom {
  Memory lone_row, lone_quants;   // the prepared row of a slab of one
  Memory lone_queries;            // of the only row of a batch: those of one KV head, turned to its place
  Memory inner;                   // a few blocks of columns of gate and up, of all rows of a slab; or of logits
  Memory linear, attention;       // the kernels' own scratch
  ReadAhead ahead;                // what its products ask for
};

// x and q exist for every row of a batch, since attention starts when all KV of a layer is written. The others serve
// one slab of rows after the other. All are float [rows][stride] except the quantised copies of a linear's input.
struct Workspace {
  Workspace(const ModelShape& model, KvFormat kv_format, int num_blocks, int num_threads, Isa isa);
  Workspace(const Workspace&) = delete;   // parts of it know each other
  Workspace& operator=(const Workspace&) = delete;

  // Plans the batch and makes room for it, before the workers begin.
  void begin(const BatchView& batch);

  float* x_row(int row) const { return x.as<float>() + std::int64_t{row} * x_stride; }
  float* q_row(int row) const { return q.as<float>() + std::int64_t{row} * q_stride; }
  // Of attention: what one head of a row left in one of its records.
  float* part(std::int64_t record, int head) const;
  WorkerRoom& room(int worker) { return rooms[static_cast<std::size_t>(worker)]; }

  const ModelShape& shape;
  const Kernels& kernels;
  Team team;
  KvArena arena;
  KvWrites kv_writes{arena};
  Rotations rotations;
  BatchPlan plan;

  const int x_stride, q_stride, kv_stride, ffn_stride;
  Memory x, q;
  Memory peaks;                                      // of rows whose token is chosen: [rows][num_peaks]
  Memory parts;                                      // of attention: [records][heads][part_floats]
  Memory normed, keys, values, attended, gate, up;   // of one slab
  Memory quants;                                     // QuantRows of one slab
  Memory inner_quants;                               // QuantRows of one slab, what the down projection reads
  std::vector<WorkerRoom> rooms;
};

}  // namespace halfline
