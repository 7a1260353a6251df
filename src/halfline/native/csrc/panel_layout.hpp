// Where in a panel the quants and scales of a block lie, for formats known only at run time: what packed.hpp draws.
#pragma once

#include <cstddef>
#include <cstdint>

#include "packed.hpp"

namespace halfline {

struct PanelLayout {
  bool nibbles;
  Scales kind;
  int zero;   // of the quants

  std::size_t quant_bytes() const { return nibbles ? 256 : 512; }
  std::size_t group_bytes() const { return group() * quant_bytes() + static_cast<std::size_t>(scale_bytes(kind)); }
  std::size_t group() const { return static_cast<std::size_t>(group_blocks(kind)); }
  std::size_t panel_bytes(std::size_t blocks) const { return (blocks + group() - 1) / group() * group_bytes(); }
  std::size_t quants_at(std::size_t block) const {
    return block / group() * group_bytes() + block % group() * quant_bytes();
  }
  // Within a block's quants, the byte of value k of row `lane`; where it is a nibble, the upper one from k = 16 on.
  std::size_t byte_at(int lane, int k) const {
    return static_cast<std::size_t>((nibbles ? k % 16 : k) / 4 * 64 + lane * 4 + k % 4);
  }
  // Of the whole group.
  std::size_t scales_at(std::size_t block) const { return block / group() * group_bytes() + group() * quant_bytes(); }
};

// Of a quantised format.
PanelLayout panel_layout_of(Format format);

}  // namespace halfline
