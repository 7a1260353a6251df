#include "team.hpp"

#include <chrono>

#include "cpus.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace halfline {
namespace {

using Clock = std::chrono::steady_clock;

// How long a worker waits awake. To be woken takes some tens of microseconds, and more where the machine is a virtual one.
// Within a pass the others are a few microseconds away: whoever is not has lost its core to somebody.
constexpr std::chrono::microseconds kWithinPass{50};
// The caller's work between two steps of a decode.
constexpr std::chrono::microseconds kBetweenPasses{300};
constexpr int kSpins = 64;   // between two looks at the clock

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether the value is another than `from` soon.
bool changes(const std::atomic<std::uint32_t>& value, std::uint32_t from) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != from) return true;
    pause();
  }
  return false;
}

void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t from, std::chrono::microseconds awake) {
  if (changes(value, from)) return;
  const Clock::time_point stop = Clock::now() + awake;
  do {
    if (changes(value, from)) return;
  } while (Clock::now() < stop);
  while (value.load(std::memory_order_acquire) == from) value.wait(from, std::memory_order_acquire);
}

}  // namespace

Team::Team(int size) : size_(size), counters_(std::make_unique<Counter[]>(2 * static_cast<std::size_t>(size))) {
  // As many workers as CPUs: each has its own. Left to the system on a busy machine, two shared one for whole passes and
  // waited for each other's turns: steps of a fifth of the embedded model took 1.7 ms at best, and 0.3 ms apart.
  cpus_ = allowed_cpus();
  if (static_cast<int>(cpus_.size()) != size || size == 1) cpus_.clear();
  for (int worker = 1; worker < size; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
}

Team::~Team() {
  leaving_.store(true, std::memory_order_relaxed);
  announce(round_, round_.load(std::memory_order_relaxed) + 1);
  for (std::thread& thread : threads_) thread.join();
}

void Team::run(const std::function<void(int)>& body) {
  // The caller's threads are its own business: it gets back what it came with.
  const bool stays = !cpus_.empty() && allowed_cpus() == cpus_;
  if (stays) stay_on({cpus_[0]});
  body_ = &body;
  announce(round_, round_.load(std::memory_order_relaxed) + 1);
  body(0);
  barrier([] {});
  if (stays) stay_on(cpus_);
}

void Team::serve(int worker) {
  if (!cpus_.empty()) stay_on({cpus_[static_cast<std::size_t>(worker)]});
  std::uint32_t round = 0;
  for (;;) {
    await_change(round_, round, kBetweenPasses);
    ++round;
    if (leaving_.load(std::memory_order_relaxed)) return;
    (*body_)(worker);
    barrier([] {});
  }
}

void Team::wait(std::uint32_t phase) { await_change(phase_, phase, kWithinPass); }

}  // namespace halfline
