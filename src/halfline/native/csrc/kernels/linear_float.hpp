// Linears with float weights: y[row] = one fused multiply-add per k, in order, whatever the batch.
#pragma once

#include "../kernels.hpp"
#include "counts.hpp"
#include "linear_quant.hpp"

namespace halfline {
namespace {

struct F32Source {
  using Element = float;
  static Vec load(const float* p) { return Vec::load(p); }
};
struct F16Source {
  using Element = std::uint16_t;
  static Vec load(const std::uint16_t* p) { return Vec::load_half(p); }
};
struct BF16Source {
  using Element = std::uint16_t;
  static Vec load(const std::uint16_t* p) { return Vec::load_bfloat(p); }
};

template <class Source, int Panels, int Rows>
inline void float_tile(const LinearJob& job, int panel, int row) {
  using Element = typename Source::Element;
  const PackedMatrix& matrix = *job.weights;
  const Element* weights[Panels];
  for (int p = 0; p < Panels; ++p) {
    weights[p] = reinterpret_cast<const Element*>(matrix.data + (panel + p) * matrix.panel_bytes);
  }
  const float* input = job.input + row * job.input_stride;
  Vec sums[Panels][Rows];
  for (int p = 0; p < Panels; ++p) {
    for (int t = 0; t < Rows; ++t) sums[p][t] = Vec::zero();
  }
  for (int k = 0; k < matrix.cols; ++k) {
    Vec w[Panels];
#pragma GCC unroll 4
    for (int p = 0; p < Panels; ++p) w[p] = Source::load(weights[p] + std::int64_t{k} * kPanelRows);
#pragma GCC unroll 8
    for (int t = 0; t < Rows; ++t) {
      const Vec x = Vec::set(input[t * job.input_stride + k]);
#pragma GCC unroll 4
      for (int p = 0; p < Panels; ++p) sums[p][t] = fma(w[p], x, sums[p][t]);
    }
  }
  for (int p = 0; p < Panels; ++p) {
    for (int t = 0; t < Rows; ++t) write_sums(job, panel + p, row + t, sums[p][t]);
  }
}

// Each sum is one chain of dependent additions, so a lone row walks four panels at once to hide their latency.
constexpr int kLonePanels = 4;

template <class Source>
void float_linear(const LinearJob& job, int begin, int end, std::uint8_t*) {
  if (job.rows == 1) {
    for (int panel = begin; panel < end; panel += kLonePanels) {
      const int count = end - panel < kLonePanels ? end - panel : kLonePanels;
      with_count<kLonePanels>(count, [&](auto panels) {
        float_tile<Source, decltype(panels)::value, 1>(job, panel, 0);
      });
    }
    return;
  }
  for (int panel = begin; panel < end; panel += kFloatPanels) {
    const int count = end - panel < kFloatPanels ? end - panel : kFloatPanels;
    with_count<kFloatPanels>(count, [&](auto panels) {
      constexpr int num_panels = decltype(panels)::value;
      for (int row = 0; row < job.rows; row += kFloatRows) {
        const int height = job.rows - row < kFloatRows ? job.rows - row : kFloatRows;
        with_count<kFloatRows>(height, [&](auto rows) {
          float_tile<Source, num_panels, decltype(rows)::value>(job, panel, row);
        });
      }
    });
  }
}

}  // namespace
}  // namespace halfline
