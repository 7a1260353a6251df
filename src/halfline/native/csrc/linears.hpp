// A slab's rows on their way through matrices: how the workers prepare them together and share the weights.
//
// Knows neither which matrices there are nor what their results are for.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "weights.hpp"
#include "workspace.hpp"

namespace halfline {

// What the next linear reads: rows of floats, and the same quantised.
struct Prepared {
  float* rows;   // [count][stride]
  int stride;
  QuantRows quant;

  float* row(int number) const { return rows + std::int64_t{number} * stride; }
};

// Where a slab's rows are prepared: in `rows`, by whoever takes them, or a lone row by every worker for itself. That
// takes less time than waiting for the one who would do it for all.
Prepared prepared(Workspace& space, const Slab& slab, const Memory& rows, int stride, int worker);

// Rows [begin, end) of a slab, both terms; x [count][stride] are the values of these columns, from the slab's first
// row on.
void quantise(const Workspace& space, const Slab& slab, const float* x, std::int64_t stride, int begin, int end,
              const Columns& columns, const QuantRows& quant);

// output = the linear's products with the slab's rows.
LinearJob linear_job(const Slab& slab, const Linear& linear, const Prepared& input, float* output, int output_stride);
// The same, scaled and added to the residual stream.
LinearJob residual_job(const Workspace& space, const Slab& slab, const Linear& linear, const Prepared& input);

// Panels [begin, end) of one job, by this worker.
void run_panels(Workspace& space, LinearJob job, int begin, int end, int worker);

// How many of all panels a worker takes at once: an even number, few enough that somebody who is done early can help.
int panels_together(int panels, std::size_t panel_bytes, int num_workers);

// Runs all jobs; they read what was prepared and write apart from each other. The first returns when all workers are
// done, the second when there is nothing left to begin.
void run_linears(Workspace& space, std::span<const LinearJob> jobs, int worker);
void begin_linears(Workspace& space, std::span<const LinearJob> jobs, int worker);

// How many rows are taken together by one worker. Rows of one tile, or of one block of KV, share cache lines: taken in
// turn by two workers they cost as much as on one alone. Single ones if there are too few for all workers.
inline int rows_together(const Workspace& space, int count) {
  const int tiles = round_up(kSlots, space.kernels.tile_rows);
  return count < tiles * space.team.size() ? 1 : tiles;
}

// Calls work(begin, end) for ranges of all rows. Each worker has a stretch of them.
template <class F>
void share_rows(Workspace& space, int count, int worker, F&& work) {
  const int together = rows_together(space, count), size = space.team.size();
  const auto start = [&](int share) { return share == size ? count : count * share / size / together * together; };
  space.team.share_stretches(worker, together, start, std::forward<F>(work));
}

// From so many rows on it pays that all workers quantise all of them, after a meeting: with 2 and 4 a step took 2 % longer.
constexpr int kRowsByColumns = 8;

// Has fill(row) write every row of `rows`, [count][n], and quantises them where somebody reads that.
template <class F>
void prepare(Workspace& space, const Slab& slab, const Prepared& rows, int n, bool quantised, int worker, F&& fill) {
  const int blocks = n / kBlockValues;
  const auto fill_rows = [&](int begin, int end) {
    for (int row = begin; row < end; ++row) fill(row);
  };
  const auto quantise_rows = [&](int begin, int end) {
    if (quantised) quantise(space, slab, rows.rows, rows.stride, begin, end, {0, blocks, blocks}, rows.quant);
  };
  if (slab.count == 1) {
    fill(0);
    return quantise_rows(0, 1);
  }
  if (!quantised || slab.count < kRowsByColumns || rows_together(space, slab.count) > 1) {
    return share_rows(space, slab.count, worker, [&](int begin, int end) {
      fill_rows(begin, end);
      quantise_rows(begin, end);
    });
  }
  // Rows of one tile: each worker quantises some columns of all.
  share_rows(space, slab.count, worker, fill_rows);
  const int size = space.team.size();
  const auto start = [&](int share) { return blocks * share / size; };
  space.team.share_stretches(worker, (blocks + size - 1) / size, start, [&](int begin, int end) {
    quantise(space, slab, rows.rows + begin * kBlockValues, rows.stride, 0, slab.count, {begin, end - begin, blocks},
             rows.quant);
  });
}

}  // namespace halfline
