#include "linears.hpp"

#include <algorithm>

namespace halfline {
namespace {

// Most weights that a worker takes at once: some 10 microseconds of reading, as the others may have to wait that long.
constexpr std::size_t kMostPortionBytes = 128 << 10;

std::size_t matrix_bytes(const PackedMatrix& matrix) {
  return static_cast<std::size_t>(matrix.panels) * matrix.panel_bytes;
}

}  // namespace

Prepared prepared(Workspace& space, const Slab& slab, const Memory& rows, int stride, int worker) {
  if (slab.count > 1) return {rows.as<float>(), stride, quant_rows(space.quants, slab.terms(), stride)};
  const WorkerRoom& room = space.room(worker);
  return {room.lone_row.as<float>(), stride, quant_rows(room.lone_quants, slab.terms(), stride)};
}

void quantise(const Workspace& space, const Slab& slab, const float* x, std::int64_t stride, int begin, int end,
              const Columns& columns, const QuantRows& quant) {
  const Kernels& kernels = space.kernels;
  const int n = columns.count * kBlockValues, terms = slab.terms();
  for (int row = begin; row < end;) {
    const int count = std::min(end - row, kernels.tile_rows - row % kernels.tile_rows);
    kernels.quantise(x + row * stride, stride, count, n, row, terms,
                     columns_of_tile(quant, kernels.tile_rows, row, terms, columns));
    row += count;
  }
  // One by one: they are few, except in the head.
  auto refined = std::lower_bound(slab.refined.begin(), slab.refined.end(), begin);
  for (; refined != slab.refined.end() && *refined < end; ++refined) {
    const int term = slab.count + static_cast<int>(refined - slab.refined.begin());
    kernels.quantise_rest(x + *refined * stride, n, term, terms,
                          columns_of_tile(quant, kernels.tile_rows, term, terms, columns));
  }
}

LinearJob linear_job(const Slab& slab, const Linear& linear, const Prepared& input, float* output, int output_stride) {
  return {&linear.matrix, linear.bias,   slab.count, input.rows, input.stride,        input.quant,
          output,         output_stride, false,      1.0f,       slab.refined.data(), slab.num_refined()};
}

LinearJob residual_job(const Workspace& space, const Slab& slab, const Linear& linear, const Prepared& input) {
  LinearJob job = linear_job(slab, linear, input, space.x_row(slab.first), space.x_stride);
  job.accumulate = true;
  job.residual_scale = space.shape.residual_scale;
  return job;
}

void run_panels(Workspace& space, LinearJob job, int begin, int end, int worker) {
  WorkerRoom& room = space.room(worker);
  job.ahead = &room.ahead;
  space.kernels.linear(job, begin, end, room.linear.as<std::uint8_t>());
}

int panels_together(int panels, std::size_t panel_bytes, int num_workers) {
  const auto most = static_cast<int>(kMostPortionBytes / panel_bytes);
  return std::max(2, std::min(panels / (8 * num_workers), most) / 2 * 2);
}

void run_linears(Workspace& space, std::span<const LinearJob> jobs, int worker) {
  begin_linears(space, jobs, worker);
  space.team.barrier([] {});
}

void begin_linears(Workspace& space, std::span<const LinearJob> jobs, int worker) {
  // Every worker streams one stretch of the weights, as many bytes as the others, in portions small enough that
  // somebody who is done early can help.
  const int num_workers = space.team.size();
  std::size_t bytes = 0;
  int panels = 0;
  for (const LinearJob& job : jobs) {
    bytes += matrix_bytes(*job.weights);
    panels += job.weights->panels;
  }
  // The first panel, counted over all jobs, before which lies a share of the bytes.
  const auto panel_at = [&](int share) {
    std::size_t rest = bytes * static_cast<std::size_t>(share) / static_cast<std::size_t>(num_workers);
    int before = 0;
    for (const LinearJob& job : jobs) {
      const std::size_t size = matrix_bytes(*job.weights);
      if (rest < size) return before + static_cast<int>(rest / job.weights->panel_bytes);
      rest -= size;
      before += job.weights->panels;
    }
    return panels;
  };
  const int grain = panels_together(panels, jobs[0].weights->panel_bytes, num_workers);
  space.team.take_stretches(worker, grain, panel_at, [&](int begin, int end) {
    for (const LinearJob* job = jobs.data(); begin < end; ++job) {
      const int stop = std::min(end, job->weights->panels);
      if (begin < stop) run_panels(space, *job, begin, stop, worker);
      begin = std::max(begin, stop) - job->weights->panels;
      end -= job->weights->panels;
    }
  });
}

}  // namespace halfline
