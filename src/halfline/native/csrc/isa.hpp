// Instruction paths: which there are, and which of them this machine can run.
#pragma once

#include <string>
#include <vector>

#include "kernels.hpp"

namespace halfline {

// The paths this process may use, best first; `portable` is always the last. Asks the system for the matrix unit's
// registers, once, where the processor has them: an answer of no leaves that path out.
const std::vector<Isa>& usable_isas();

const Kernels& kernels_of(Isa isa);

// `portable` for a name that is none.
Isa isa_named(const std::string& name);

}  // namespace halfline
