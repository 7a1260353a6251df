// Loops of nothing but the arithmetic of the kernels, on operands that stay in registers.
//
// Knows what each instruction path multiplies with; no clock and no threads.
#pragma once

#include "kernels.hpp"

namespace halfline {

// Runs for some tens of microseconds, beside which reading the clock is nothing, and returns how many operations it did.
using ComputeProbe = double (*)();

// What each counts: see limits.hpp.
struct ComputeProbes {
  ComputeProbe int8, int8_block, fma;
};

ComputeProbes compute_probes_of(Isa isa);

}  // namespace halfline
