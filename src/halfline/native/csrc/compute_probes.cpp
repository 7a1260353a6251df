#include "compute_probes.hpp"

#ifdef HALFLINE_X86
#include <immintrin.h>
#endif

#include <cstdint>

#ifdef HALFLINE_AMX
#include "kernels/tiles.hpp"
#endif

namespace halfline {
namespace {

// The value is new every time, as far as the compiler can tell, so nothing moves out of a loop or away.
template <class T>
inline void opaque(T& value) {
#ifdef HALFLINE_X86
  asm volatile("" : "+v"(value));
#else
  asm volatile("" : "+w"(value));
#endif
}

constexpr int kRepeats = 4096;

// Enough independent sums to hide an instruction's latency; all loops over them are unrolled, or the compiler keeps them
// in memory and that is what is measured.
#ifdef HALFLINE_X86

[[gnu::target("avx512f,avx512bw,avx512vnni")]] double int8_avx512vnni() {
  constexpr int sums = 12;
  __m512i sum[sums], weights = _mm512_set1_epi8(3), four = _mm512_set1_epi8(5);
#pragma GCC unroll 12
  for (int i = 0; i < sums; ++i) sum[i] = _mm512_setzero_si512();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) {
      sum[i] = _mm512_dpbusd_epi32(sum[i], weights, four);
      opaque(sum[i]);
    }
  }
  return 2.0 * 64 * sums * kRepeats;
}

// Per block of 32 and 16 rows: eight products onto a number so large that the sum is a float, times the two scales,
// onto the sum.
[[gnu::target("avx512f,avx512bw,avx512vnni")]] double int8_block_avx512vnni() {
  constexpr int sums = 8;
  __m512i weights = _mm512_set1_epi8(3), four = _mm512_set1_epi8(5);
  __m512 sum[sums], scale = _mm512_set1_ps(1e-3f), other = _mm512_set1_ps(1e-2f);
#pragma GCC unroll 12
  for (int i = 0; i < sums; ++i) sum[i] = _mm512_setzero_ps();
  for (int repeat = 0; repeat < kRepeats / 8; ++repeat) {
    __m512i dot[sums];
#pragma GCC unroll 8
    for (int i = 0; i < sums; ++i) dot[i] = _mm512_set1_epi32(0x4b400000);
#pragma GCC unroll 8
    for (int group = 0; group < 8; ++group) {
#pragma GCC unroll 8
      for (int i = 0; i < sums; ++i) {
        dot[i] = _mm512_dpbusd_epi32(dot[i], weights, four);
        opaque(dot[i]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < sums; ++i) {
      opaque(scale);
      const __m512 scaled = _mm512_fmadd_ps(scale, _mm512_castsi512_ps(dot[i]), other);
      sum[i] = _mm512_fmadd_ps(scaled, other, sum[i]);
      opaque(sum[i]);
    }
  }
  return 2.0 * 64 * sums * kRepeats;
}

[[gnu::target("avx512f")]] double fma_avx512() {
  constexpr int sums = 12;
  __m512 sum[sums], x = _mm512_set1_ps(0.5f), y = _mm512_set1_ps(0.25f);
#pragma GCC unroll 12
  for (int i = 0; i < sums; ++i) sum[i] = _mm512_setzero_ps();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) {
      sum[i] = _mm512_fmadd_ps(x, y, sum[i]);
      opaque(sum[i]);
    }
  }
  return 2.0 * 16 * sums * kRepeats;
}

#ifdef HALFLINE_AMX

// Whole tiles: 64 values of 16 rows.
double int8_amx() {
  TileShapes(16, 64).load();
  clear_tile<kActivationTile>();
  clear_tile<kWeightTile>();
  clear_tile<0>();
  clear_tile<1>();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    multiply_tiles<0>();
    multiply_tiles<1>();
  }
  release_tiles();
  return 2.0 * 2 * 16 * 16 * 64 * kRepeats;
}

constexpr int kBlockSums = 16;

// One step of int8_block_amx: a product is begun, that of three steps before stored, that of five steps before scaled.
// A function, not a lambda: what one captures stays in memory.
template <int At>
[[gnu::target("avx512f"), gnu::always_inline]] inline void block_step(std::int32_t (&ring)[4][16 * 16], __m512 scale,
                                                                      __m512 other, __m512 (&sum)[kBlockSums]) {
  clear_tile<At>();
  multiply_tiles<At>();
  store_tile<(At + 1) % 4>(ring[(At + 1) % 4]);
  const std::int32_t* done = ring[(At + 3) % 4];
  const __m512i bits = _mm512_set1_epi32(0x4b400000);
#pragma GCC unroll 16
  for (int i = 0; i < kBlockSums; ++i) {
    const __m512i whole = _mm512_add_epi32(_mm512_load_si512(done + 16 * i), bits);
    sum[i] = _mm512_fmadd_ps(_mm512_fmadd_ps(scale, _mm512_castsi512_ps(whole), other), other, sum[i]);
  }
}

// Per block of 32: one product, out through memory, to float, times the two scales, onto the sum. Of tiles that were loaded:
// with operands that were only ever cleared the same loop takes 1.3 times as long.
[[gnu::target("avx512f")]] double int8_block_amx() {
  alignas(4096) std::int32_t ring[4][16 * 16] = {};
  __m512 sum[kBlockSums], scale = _mm512_set1_ps(1e-3f), other = _mm512_set1_ps(1e-2f);
#pragma GCC unroll 16
  for (int i = 0; i < kBlockSums; ++i) sum[i] = _mm512_setzero_ps();
  TileShapes(16, 32).load();
  load_tile<kActivationTile>(ring, 32);
  load_tile<kWeightTile>(ring, 64);
  for (int repeat = 0; repeat < kRepeats / 16; ++repeat) {
    opaque(scale);
    block_step<0>(ring, scale, other, sum);
    block_step<1>(ring, scale, other, sum);
    block_step<2>(ring, scale, other, sum);
    block_step<3>(ring, scale, other, sum);
  }
#pragma GCC unroll 16
  for (int i = 0; i < kBlockSums; ++i) opaque(sum[i]);
  release_tiles();
  return 2.0 * 16 * 16 * 32 * 4 * (kRepeats / 16);
}

#endif

[[gnu::target("avx2")]] double int8_avx2() {
  constexpr int sums = 8;
  __m256i sum[sums], weights = _mm256_set1_epi8(3), four = _mm256_set1_epi8(5);
#pragma GCC unroll 12
  for (int i = 0; i < sums; ++i) sum[i] = _mm256_setzero_si256();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
#pragma GCC unroll 8
    for (int i = 0; i < sums; ++i) {
      opaque(weights);
      sum[i] = _mm256_add_epi16(sum[i], _mm256_maddubs_epi16(weights, four));
      opaque(sum[i]);
    }
  }
  return 2.0 * 32 * sums * kRepeats;
}

// Two registers make 16 rows; the 16-bit sums of a block widen once.
[[gnu::target("avx2,fma")]] double int8_block_avx2() {
  constexpr int sums = 4;
  __m256i weights = _mm256_set1_epi8(3), four = _mm256_set1_epi8(5);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256 sum[sums], scale = _mm256_set1_ps(1e-3f), other = _mm256_set1_ps(1e-2f);
#pragma GCC unroll 12
  for (int i = 0; i < sums; ++i) sum[i] = _mm256_setzero_ps();
  for (int repeat = 0; repeat < kRepeats / 8; ++repeat) {
    __m256i dot[sums];
#pragma GCC unroll 4
    for (int i = 0; i < sums; ++i) dot[i] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int group = 0; group < 8; ++group) {
#pragma GCC unroll 4
      for (int i = 0; i < sums; ++i) {
        opaque(weights);
        dot[i] = _mm256_add_epi16(dot[i], _mm256_maddubs_epi16(weights, four));
        opaque(dot[i]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < sums; ++i) {
      opaque(scale);
      const __m256 whole = _mm256_cvtepi32_ps(_mm256_madd_epi16(dot[i], ones));
      sum[i] = _mm256_fmadd_ps(_mm256_mul_ps(scale, other), whole, sum[i]);
      opaque(sum[i]);
    }
  }
  return 2.0 * 32 * sums * kRepeats;
}

[[gnu::target("avx2,fma")]] double fma_avx2() {
  constexpr int sums = 12;
  __m256 sum[sums], x = _mm256_set1_ps(0.5f), y = _mm256_set1_ps(0.25f);
#pragma GCC unroll 12
  for (int i = 0; i < sums; ++i) sum[i] = _mm256_setzero_ps();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) {
      sum[i] = _mm256_fmadd_ps(x, y, sum[i]);
      opaque(sum[i]);
    }
  }
  return 2.0 * 8 * sums * kRepeats;
}

#endif

// Vectors of the compiler's own. Plain C++ has no byte products: 16-bit ones come closest.
using Shorts = std::int16_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));
using Ints = std::int32_t __attribute__((vector_size(16)));

double int8_portable() {
  constexpr int sums = 8;
  Shorts sum[sums] = {}, weights = Shorts{} + 3, four = Shorts{} + 5;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
#pragma GCC unroll 8
    for (int i = 0; i < sums; ++i) {
      opaque(weights);
      sum[i] += weights * four;
      opaque(sum[i]);
    }
  }
  return 2.0 * 8 * sums * kRepeats;
}

double int8_block_portable() {
  constexpr int sums = 4;
  Shorts weights = Shorts{} + 3, four = Shorts{} + 5;
  Floats sum[sums] = {}, scale = Floats{} + 1e-3f, other = Floats{} + 1e-2f;
  for (int repeat = 0; repeat < kRepeats / 32; ++repeat) {
    Shorts dot[sums] = {};
    for (int group = 0; group < 32; ++group) {
#pragma GCC unroll 4
      for (int i = 0; i < sums; ++i) {
        opaque(weights);
        dot[i] += weights * four;
        opaque(dot[i]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < sums; ++i) {
      const Ints whole = reinterpret_cast<Ints>(dot[i]);
      opaque(scale);
      sum[i] += __builtin_convertvector(whole >> 16, Floats) * (scale * other);
      sum[i] += __builtin_convertvector(whole & 0xffff, Floats) * (scale * other);
      opaque(sum[i]);
    }
  }
  return 2.0 * 8 * sums * (kRepeats / 32 * 32);
}

double fma_portable() {
  constexpr int sums = 8;
  Floats sum[sums] = {}, x = Floats{} + 0.5f, y = Floats{} + 0.25f;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
#pragma GCC unroll 8
    for (int i = 0; i < sums; ++i) {
      opaque(x);
      sum[i] += x * y;
      opaque(sum[i]);
    }
  }
  return 2.0 * 4 * sums * kRepeats;
}

}  // namespace

ComputeProbes compute_probes_of(Isa isa) {
  switch (isa) {
#ifdef HALFLINE_X86
#ifdef HALFLINE_AMX
    case Isa::amx: return {int8_amx, int8_block_amx, fma_avx512};
#endif
    case Isa::avx512vnni: return {int8_avx512vnni, int8_block_avx512vnni, fma_avx512};
    case Isa::avx2: return {int8_avx2, int8_block_avx2, fma_avx2};
#endif
    default: return {int8_portable, int8_block_portable, fma_portable};
  }
}

}  // namespace halfline
