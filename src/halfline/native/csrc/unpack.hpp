// Brings single rows back out of panels.
#pragma once

#include "packed.hpp"

namespace halfline {

// One row as floats, cols of them.
void unpack_row(const PackedMatrix& matrix, int row, float* output);

// Adds to the squares of a row's lengths, block by block of 32 values: of its weights, and where a weight counts as the
// magnitudes of its quant and of its minimum, the two that products are made of.
struct BlockSquares {
  double whole, parts;
};
void add_squares(const PackedMatrix& matrix, int row, BlockSquares* blocks);

}  // namespace halfline
