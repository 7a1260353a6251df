// Fills the table of kernels with this translation unit's instantiations.
#pragma once

#include "../kernels.hpp"
#include "attention.hpp"
#include "kv_rows.hpp"
#include "linear_float.hpp"
#include "linear_quant.hpp"
#include "rows.hpp"

namespace halfline {
namespace {

void linear_any(const LinearJob& job, int begin, int end, std::uint8_t* scratch) {
  switch (job.weights->format) {
    case Format::F32: return float_linear<F32Source>(job, begin, end, scratch);
    case Format::F16: return float_linear<F16Source>(job, begin, end, scratch);
    case Format::BF16: return float_linear<BF16Source>(job, begin, end, scratch);
    case Format::Q4_0: return quant_linear<Q4_0>(job, begin, end, scratch);
    case Format::Q4_1: return quant_linear<Q4_1>(job, begin, end, scratch);
    case Format::Q5_0: return quant_linear<Q5_0>(job, begin, end, scratch);
    case Format::Q5_1: return quant_linear<Q5_1>(job, begin, end, scratch);
    case Format::Q8_0: return quant_linear<Q8_0>(job, begin, end, scratch);
    case Format::Q4_K: return quant_linear<Q4_K>(job, begin, end, scratch);
    case Format::Q5_K: return quant_linear<Q5_K>(job, begin, end, scratch);
    case Format::Q6_K: return quant_linear<Q6_K>(job, begin, end, scratch);
  }
}

constexpr Kernels make_table(const char* name) {
  return {name, kTileRows, norm_row, quantise_rows<kTileRows>, quantise_rest_row<kTileRows>, gate_row, gelu_row,
          rotate_head, store_place, quantise_block_kv, linear_any, attend_tile, attend_parts, merge_parts, top_row,
          peaks_of_panels};
}

}  // namespace
}  // namespace halfline
