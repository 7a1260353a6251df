#include "cpus.hpp"

#ifdef __linux__
#include <sched.h>
#endif

namespace halfline {

#ifdef __linux__

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t set;
  // More CPUs than the set has room for: the system says no, and then we have no say either.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void stay_on(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

#else

std::vector<int> allowed_cpus() { return {}; }

void stay_on(const std::vector<int>&) {}

#endif

}  // namespace halfline
