// What this machine can do at most: the bounds that benchmarks hold the kernels against. Nothing here serves a model.
//
// Every probe runs for about `seconds` on `threads` threads of its own that start together, and returns a rate: the
// work of all threads over the time of the longest.
#pragma once

#include <cstddef>

#include "kernels.hpp"

namespace halfline {

// Bytes per second of reading a buffer of `bytes` again and again, each thread its own part, in order. A buffer that
// fits a cache is read from that cache, as weights of that size would be.
double read_bytes_per_s(std::size_t bytes, int threads, double seconds);

// Operations (a multiplication or an addition) per second with all operands in registers.
// int8_ops: unsigned times signed bytes, summed in groups; the instructions that nibble weights are multiplied with.
double int8_ops_per_s(Isa isa, int threads, double seconds);
// int8_block_ops counts the same operations, but every 32 products are converted and scaled as block formats ask for:
// what is left of int8_ops once the scales are paid.
double int8_block_ops_per_s(Isa isa, int threads, double seconds);
// Fused multiply-adds of floats, two operations each.
double fma_ops_per_s(Isa isa, int threads, double seconds);

}  // namespace halfline
