// The `portable` instruction path: every kernel, compiled for it.
#include "vec_portable.hpp"

#include "fold_each.hpp"
#include "table.hpp"

namespace halfline {

const Kernels& portable_kernels() {
  static constexpr Kernels table = make_table("portable");
  return table;
}

}  // namespace halfline
