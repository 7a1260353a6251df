#include "feed_forward.hpp"

#include <algorithm>

#include "linears.hpp"

namespace halfline {
namespace {

// Blocks of columns between the two matrices that are computed together, where rows are few.
constexpr int kInnerBlocks = 4;

// gate is not read where the model has none; `up` may be the output.
void activate(const Workspace& space, const float* gate, const float* up, int n, float* output) {
  if (space.shape.gated) {
    space.kernels.gate(gate, up, n, output);
  } else {
    space.kernels.gelu(up, n, output);
  }
}

// What the down projection reads, row by row, once all products are there.
Prepared inner_rows(Workspace& space, const LayerWeights& layer, const Slab& slab, std::span<const LinearJob> jobs,
                    int worker) {
  const int ffn = space.shape.ffn_size;
  run_linears(space, jobs, worker);
  const Prepared inner = prepared(space, slab, space.up, space.ffn_stride, worker);
  prepare(space, slab, inner, ffn, layer.down.matrix.quantised(), worker, [&](int row) {
    const std::int64_t at = std::int64_t{row} * space.ffn_stride;
    // Whole vectors: the padding of a row is zero and stays so.
    activate(space, space.gate.as<float>() + at, space.up.as<float>() + at, round_up(ffn, kPanelRows), inner.row(row));
  });
  return inner;
}

// The same quantised, a few blocks of columns at a time: the products for all rows of the slab, the activation function
// and quantising, while all of it lies in the worker's own cache. Whole rows of a prompt do not fit there, and products
// that are written to farther away take twice as long.
Prepared inner_blocks(Workspace& space, const Slab& slab, std::span<const LinearJob> jobs, int worker) {
  const WorkerRoom& room = space.room(worker);
  const int blocks = space.shape.ffn_size / kBlockValues;
  const int width = std::clamp(kInnerRowBlocks / slab.count, 1, kInnerBlocks), stride = width * kBlockValues;
  float* up = room.inner.as<float>();
  float* gate = up + std::int64_t{slab.count} * stride;
  const QuantRows quant = quant_rows(space.inner_quants, slab.terms(), space.shape.ffn_size);
  const auto multiply = [&](LinearJob job, float* output, int first_block, int count) {
    constexpr int panels = kBlockValues / kPanelRows;
    const PackedMatrix columns = job.weights->from_panel(first_block * panels);
    job.weights = &columns;
    if (job.bias) job.bias += first_block * kBlockValues;
    job.output = output;
    job.output_stride = stride;
    run_panels(space, job, 0, count * panels, worker);
  };
  const auto start = [&](int share) { return blocks * share / space.team.size(); };
  space.team.share_stretches(worker, width, start, [&](int begin, int end) {
    multiply(jobs[0], up, begin, end - begin);
    if (jobs.size() > 1) multiply(jobs[1], gate, begin, end - begin);
    activate(space, gate, up, slab.count * stride, up);
    quantise(space, slab, up, stride, 0, slab.count, {begin, end - begin, blocks}, quant);
  });
  return {nullptr, 0, quant};
}

}  // namespace

void feed_forward(Workspace& space, const LayerWeights& layer, const Slab& slab, int worker) {
  const int hidden = space.shape.hidden_size;
  const bool gated = space.shape.gated;
  const Prepared normed = prepared(space, slab, space.normed, space.x_stride, worker);
  const bool quantised = layer.up.matrix.quantised() || (gated && layer.gate.matrix.quantised());
  prepare(space, slab, normed, hidden, quantised, worker, [&](int row) {
    space.kernels.norm(space.x_row(slab.first + row), layer.ffn_norm, hidden, normed.row(row));
  });
  const LinearJob both[] = {linear_job(slab, layer.up, normed, space.up.as<float>(), space.ffn_stride),
                            linear_job(slab, layer.gate, normed, space.gate.as<float>(), space.ffn_stride)};
  const std::span<const LinearJob> jobs(both, gated ? 2 : 1);
  const bool by_blocks = slab.count > 1 && layer.down.matrix.quantised();
  const Prepared inner =
      by_blocks ? inner_blocks(space, slab, jobs, worker) : inner_rows(space, layer, slab, jobs, worker);
  const LinearJob down = residual_job(space, slab, layer.down, inner);
  begin_linears(space, {&down, 1}, worker);
}

}  // namespace halfline
