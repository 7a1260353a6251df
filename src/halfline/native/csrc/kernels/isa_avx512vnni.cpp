// The `avx512vnni` instruction path: every kernel, compiled for it.
#include "vec_avx512.hpp"

#include "quantise_avx512.hpp"
#include "table.hpp"

namespace halfline {

const Kernels& avx512vnni_kernels() {
  static constexpr Kernels table = [] {
    Kernels kernels = make_table("avx512vnni");
    kernels.quantise = quantise_rows_together<kTileRows>;
    kernels.quantise_rest = quantise_rest_together<kTileRows>;
    return kernels;
  }();
  return table;
}

}  // namespace halfline
