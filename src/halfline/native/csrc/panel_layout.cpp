#include "panel_layout.hpp"

#include <stdexcept>

namespace halfline {
namespace {

template <class Quant>
constexpr PanelLayout layout_of() {
  return {Quant::nibbles, Quant::scales, Quant::zero_shift ? 1 << Quant::zero_shift : 0};
}

}  // namespace

PanelLayout panel_layout_of(Format format) {
  switch (format) {
    case Format::Q4_0: return layout_of<Q4_0>();
    case Format::Q4_1: return layout_of<Q4_1>();
    case Format::Q5_0: return layout_of<Q5_0>();
    case Format::Q5_1: return layout_of<Q5_1>();
    case Format::Q8_0: return layout_of<Q8_0>();
    case Format::Q4_K: return layout_of<Q4_K>();
    case Format::Q5_K: return layout_of<Q5_K>();
    case Format::Q6_K: return layout_of<Q6_K>();
    default: throw std::logic_error("a float format has no blocks");
  }
}

}  // namespace halfline
