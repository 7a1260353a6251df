#include "isa.hpp"

#ifdef HALFLINE_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace halfline {
namespace {

#ifdef HALFLINE_AMX
// Linux gives a process the eight kilobytes of tile registers only when asked; older kernels, and those that were told
// not to, refuse.
bool may_use_tiles() {
  unsigned int a, b, c, d;
  constexpr unsigned int tiles = 1u << 24, int8 = 1u << 25;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (tiles | int8)) != (tiles | int8)) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;   // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}
#endif

std::vector<Isa> find_isas() {
  std::vector<Isa> found;
#ifdef HALFLINE_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni")) {
#ifdef HALFLINE_AMX
    if (may_use_tiles()) found.push_back(Isa::amx);
#endif
    found.push_back(Isa::avx512vnni);
  }
  if (avx2) found.push_back(Isa::avx2);
#endif
  found.push_back(Isa::portable);
  return found;
}

}  // namespace

const std::vector<Isa>& usable_isas() {
  static const std::vector<Isa> found = find_isas();
  return found;
}

const Kernels& kernels_of(Isa isa) {
  switch (isa) {
#ifdef HALFLINE_AMX
    case Isa::amx: return amx_kernels();
#endif
#ifdef HALFLINE_X86
    case Isa::avx512vnni: return avx512vnni_kernels();
    case Isa::avx2: return avx2_kernels();
#endif
    default: return portable_kernels();
  }
}

Isa isa_named(const std::string& name) {
  for (const Isa isa : usable_isas()) {
    if (name == kernels_of(isa).name) return isa;
  }
  return Isa::portable;
}

}  // namespace halfline
