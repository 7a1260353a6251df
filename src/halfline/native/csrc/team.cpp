#include "team.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace halfline {
namespace {

// Within a pass the others are a few microseconds away; a worker that waits longer has lost its core to somebody and
// goes to sleep. About 100 microseconds.
constexpr int kSpins = 1500;

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void await_change(const std::atomic<std::uint32_t>& value, std::uint32_t from) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != from) return;
    pause();
  }
  while (value.load(std::memory_order_acquire) == from) value.wait(from, std::memory_order_acquire);
}

}  // namespace

Team::Team(int size) : size_(size), counters_(std::make_unique<Counter[]>(2 * static_cast<std::size_t>(size))) {
  for (int worker = 1; worker < size; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
}

Team::~Team() {
  leaving_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::run(const std::function<void(int)>& body) {
  body_ = &body;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  body(0);
  barrier([] {});
}

void Team::serve(int worker) {
  std::uint32_t round = 0;
  for (;;) {
    await_change(round_, round);
    ++round;
    if (leaving_.load(std::memory_order_relaxed)) return;
    (*body_)(worker);
    barrier([] {});
  }
}

void Team::wait(std::uint32_t phase) { await_change(phase_, phase); }

}  // namespace halfline
