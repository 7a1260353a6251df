// The `amx` instruction path: `avx512vnni`, but for linears of many rows with quantised weights.
#include "vec_avx512.hpp"

#include "linear_amx.hpp"
#include "quantise_avx512.hpp"

namespace halfline {
namespace {

void linear_amx(const LinearJob& job, int begin, int end, std::uint8_t* scratch) {
  // For few rows unpacking is dear, and a tile as short as theirs is laid out alike on both paths.
  if (!job.weights->quantised() || job.rows + job.num_refined <= kTileRows) {
    return avx512vnni_kernels().linear(job, begin, end, scratch);
  }
  switch (job.weights->format) {
    case Format::Q4_0: return matrix_linear<Q4_0>(job, begin, end, scratch);
    case Format::Q4_1: return matrix_linear<Q4_1>(job, begin, end, scratch);
    case Format::Q5_0: return matrix_linear<Q5_0>(job, begin, end, scratch);
    case Format::Q5_1: return matrix_linear<Q5_1>(job, begin, end, scratch);
    case Format::Q8_0: return matrix_linear<Q8_0>(job, begin, end, scratch);
    case Format::Q4_K: return matrix_linear<Q4_K>(job, begin, end, scratch);
    case Format::Q5_K: return matrix_linear<Q5_K>(job, begin, end, scratch);
    case Format::Q6_K: return matrix_linear<Q6_K>(job, begin, end, scratch);
    default: return;
  }
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels table = [] {
    Kernels kernels = avx512vnni_kernels();
    kernels.name = "amx";
    kernels.tile_rows = kMatrixRows;
    kernels.quantise = quantise_rows_together<kMatrixRows>;
    kernels.quantise_rest = quantise_rest_together<kMatrixRows>;
    kernels.linear = linear_amx;
    return kernels;
  }();
  return table;
}

}  // namespace halfline
