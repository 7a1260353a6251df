// Which CPUs a thread may run on, and keeping it on one of them. Where the system has no say in that, nothing happens.
#pragma once

#include <vector>

namespace halfline {

// In order; of the calling thread. Empty where the system does not tell.
std::vector<int> allowed_cpus();

// Keeps the calling thread on these; a system that refuses is left alone.
void stay_on(const std::vector<int>& cpus);

}  // namespace halfline
