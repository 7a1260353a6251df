#include "limits.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "compute_probes.hpp"
#include "memory.hpp"

namespace halfline {
namespace {

using Clock = std::chrono::steady_clock;

// Every thread repeats work(thread), which returns how much it did, until the time is over.
template <class F>
double rate(int threads, double seconds, F&& work) {
  std::barrier start(threads);
  std::vector<double> done(static_cast<std::size_t>(threads)), elapsed(static_cast<std::size_t>(threads));
  const auto body = [&](int thread) {
    work(thread);   // touches, fills caches
    start.arrive_and_wait();
    const Clock::time_point began = Clock::now();
    double amount = 0, passed = 0;
    do {
      amount += work(thread);
      passed = std::chrono::duration<double>(Clock::now() - began).count();
    } while (passed < seconds);
    done[static_cast<std::size_t>(thread)] = amount;
    elapsed[static_cast<std::size_t>(thread)] = passed;
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(body, thread);
  body(0);
  others.clear();
  double total = 0;
  for (const double amount : done) total += amount;
  return total / *std::max_element(elapsed.begin(), elapsed.end());
}

using Line = std::uint64_t __attribute__((vector_size(64)));

#ifdef HALFLINE_X86
#define HALFLINE_EACH_WIDTH [[gnu::target_clones("default", "avx2", "avx512f")]]
#else
#define HALFLINE_EACH_WIDTH
#endif

HALFLINE_EACH_WIDTH std::uint64_t read_lines(const std::uint8_t* data, std::size_t lines) {
  const auto* line = reinterpret_cast<const Line*>(data);
  Line sums[4] = {};
  for (std::size_t i = 0; i + 4 <= lines; i += 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sums[j] += line[i + j];
  }
  const Line sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  std::uint64_t total = 0;
  for (int lane = 0; lane < 8; ++lane) total += sum[lane];
  return total;
}

}  // namespace

double read_bytes_per_s(std::size_t bytes, int threads, double seconds) {
  const std::size_t lines = std::max<std::size_t>(bytes / 64 / static_cast<std::size_t>(threads), 4);
  const Memory memory(lines * 64 * static_cast<std::size_t>(threads));
  // Untouched pages would all be the one page of zeros.
  for (std::size_t at = 0; at < memory.bytes(); at += 4096) memory.as<std::uint8_t>()[at] = 1;
  return rate(threads, seconds, [&](int thread) {
    std::uint64_t total =
        read_lines(memory.as<std::uint8_t>() + static_cast<std::size_t>(thread) * lines * 64, lines);
    asm volatile("" : "+r"(total));
    return static_cast<double>(lines * 64);
  });
}

double int8_ops_per_s(Isa isa, int threads, double seconds) {
  return rate(threads, seconds, [probe = compute_probes_of(isa).int8](int) { return probe(); });
}

double int8_block_ops_per_s(Isa isa, int threads, double seconds) {
  return rate(threads, seconds, [probe = compute_probes_of(isa).int8_block](int) { return probe(); });
}

double fma_ops_per_s(Isa isa, int threads, double seconds) {
  return rate(threads, seconds, [probe = compute_probes_of(isa).fma](int) { return probe(); });
}

}  // namespace halfline
