// A fixed team of threads that walks through one forward pass together.
//
// The caller is worker 0. All workers run the same function and meet at barriers; between two barriers they take
// units of work from shared counters, so a worker that the system put aside does not hold up the others. Who computes
// a unit never changes its result.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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
    // The counters of the phase after next: nobody touches them before the next barrier.
    for (Counter& counter : counters(phase)) counter.value.store(0, std::memory_order_relaxed);
    announce(phase_, phase + 1);
  }

  // Calls work(begin, end) for ranges that together cover [0, units), then meets the others.
  template <class F>
  void share(int units, int grain, F&& work) {
    take(counters(phase_.load(std::memory_order_relaxed))[0].value, 0, units, grain, work);
    barrier([] {});
  }

  // The same where neighbouring units are best done by one worker: worker i begins with [start(i), start(i + 1)), and
  // then helps the others with theirs.
  template <class Start, class F>
  void share_stretches(int worker, int grain, Start&& start, F&& work) {
    take_stretches(worker, grain, start, work);
    barrier([] {});
  }

  // The same without meeting the others: what comes next is a barrier.
  template <class Start, class F>
  void take_stretches(int worker, int grain, Start&& start, F&& work) {
    const std::span<Counter> taken = counters(phase_.load(std::memory_order_relaxed));
    for (int i = 0; i < size_; ++i) {
      const int owner = worker + i < size_ ? worker + i : worker + i - size_;
      take(taken[static_cast<std::size_t>(owner)].value, start(owner), start(owner + 1), grain, work);
    }
  }

 private:
  // The library looks whether anybody sleeps before it wakes somebody. That look must not pass the store it is about, or
  // whoever goes to sleep in between sleeps for ever: a release does not forbid it, and a whole engine once stood still.
  static void announce(std::atomic<std::uint32_t>& value, std::uint32_t next) {
    value.store(next, std::memory_order_seq_cst);
    value.notify_all();
  }

  void wait(std::uint32_t phase);
  void serve(int worker);

  struct alignas(64) Counter {
    std::atomic<int> value{0};
  };

  // One per worker, of one of two phases in turn.
  std::span<Counter> counters(std::uint32_t phase) {
    const auto size = static_cast<std::size_t>(size_);
    return {counters_.get() + (phase & 1) * size, size};
  }

  // The counter holds how many units of [start, stop) are taken.
  template <class F>
  static void take(std::atomic<int>& counter, int start, int stop, int grain, F&& work) {
    for (;;) {
      const int begin = start + counter.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= stop) return;
      work(begin, begin + grain < stop ? begin + grain : stop);
    }
  }

  const int size_;
  std::vector<int> cpus_;   // one of each worker, or none: then they run wherever there is room
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  alignas(64) std::atomic<int> arrived_{0};
  std::unique_ptr<Counter[]> counters_;   // [2][workers]
  alignas(64) std::atomic<std::uint32_t> round_{0};   // counts calls of run
  std::atomic<bool> leaving_{false};
  const std::function<void(int)>* body_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace halfline
