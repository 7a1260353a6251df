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

// Both terms of one row of a slab.
void quantise(const Workspace& space, const Slab& slab, const float* x, int n, int row, const QuantRows& quant);

// output = the linear's products with the slab's rows.
LinearJob linear_job(const Slab& slab, const Linear& linear, const Prepared& input, float* output, int output_stride);
// The same, scaled and added to the residual stream.
LinearJob residual_job(const Workspace& space, const Slab& slab, const Linear& linear, const Prepared& input);

// Runs all jobs; they read what was prepared and write apart from each other.
void run_linears(Workspace& space, std::span<const LinearJob> jobs, int worker);

// Calls work(row) for every row. Each worker has a stretch of the rows, and takes whole tiles of it. Rows of one tile,
// or of one block of KV, share cache lines: taken in turn by two workers they cost as much as on one alone.
template <class F>
void share_rows(Workspace& space, int count, int worker, F&& work) {
  const int tiles = round_up(kSlots, space.kernels.tile_rows), size = space.team.size();
  const int together = count < tiles * size ? 1 : tiles;
  const auto start = [&](int share) { return share == size ? count : count * share / size / together * together; };
  space.team.share_stretches(worker, together, start, [&](int begin, int end) {
    for (int row = begin; row < end; ++row) work(row);
  });
}

// The same for rows that are `prepared`.
template <class F>
void prepare(Workspace& space, const Slab& slab, int worker, F&& work) {
  if (slab.count == 1) return work(0);
  share_rows(space, slab.count, worker, std::forward<F>(work));
}

}  // namespace halfline
