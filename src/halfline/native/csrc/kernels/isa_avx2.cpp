// The `avx2` instruction path: every kernel, compiled for it.
#include "vec_avx2.hpp"

#include "fold_each.hpp"
#include "table.hpp"

namespace halfline {

const Kernels& avx2_kernels() {
  static constexpr Kernels table = make_table("avx2");
  return table;
}

}  // namespace halfline
