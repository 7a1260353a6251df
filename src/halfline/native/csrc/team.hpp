// A fixed team of threads that walks through one forward pass together.
//
// The caller is worker 0. All workers run the same function and meet at barriers; between two barriers they take
// units of work from a shared counter, so a worker that the system put aside does not hold up the others. Who computes
// a unit never changes its result.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace halfline {

class Team {
 public:
  explicit Team(int size);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const { return size_; }

  // Runs body(worker) on every worker and returns when all are done. One caller at a time.
  void run(const std::function<void(int)>& body);

  // Waits until every worker is here. `alone` runs on the last to arrive, while the others wait.
  template <class F>
  void barrier(F&& alone) {
    const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 < size_) return wait(phase);
    alone();
    arrived_.store(0, std::memory_order_relaxed);
    // The counter of the phase after next: nobody touches it before the next barrier.
    counters_[phase & 1].value.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
  }

  // Calls work(begin, end) for ranges that together cover [0, units), then meets the others.
  template <class F>
  void share(int units, int grain, F&& work) {
    std::atomic<int>& counter = counters_[phase_.load(std::memory_order_relaxed) & 1].value;
    for (;;) {
      const int begin = counter.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= units) break;
      work(begin, begin + grain < units ? begin + grain : units);
    }
    barrier([] {});
  }

 private:
  void wait(std::uint32_t phase);
  void serve(int worker);

  struct alignas(64) Counter {
    std::atomic<int> value{0};
  };

  const int size_;
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  alignas(64) std::atomic<int> arrived_{0};
  Counter counters_[2];
  alignas(64) std::atomic<std::uint32_t> round_{0};   // counts calls of run
  std::atomic<bool> leaving_{false};
  const std::function<void(int)>* body_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace halfline
