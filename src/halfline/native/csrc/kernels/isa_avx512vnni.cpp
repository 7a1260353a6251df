// The `avx512vnni` instruction path: every kernel, compiled for it.
#include "vec_avx512.hpp"

#include "table.hpp"

namespace halfline {

const Kernels& avx512vnni_kernels() {
  static constexpr Kernels table = make_table("avx512vnni");
  return table;
}

}  // namespace halfline
