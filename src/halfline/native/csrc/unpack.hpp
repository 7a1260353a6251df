// Brings single rows back out of panels.
#pragma once

#include "packed.hpp"

namespace halfline {

// One row as floats, cols of them.
void unpack_row(const PackedMatrix& matrix, int row, float* output);

}  // namespace halfline
