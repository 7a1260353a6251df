// Page-aligned, zeroed, lazily touched memory, with huge pages where the system gives them.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

namespace halfline {

class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes) : bytes_(bytes ? bytes : 1) {
    // Large memory begins where a huge page can: the system gives one only to a whole aligned stretch.
    const std::size_t slack = bytes_ < kHugePage ? 0 : kHugePage;
    void* mapped = mmap(nullptr, bytes_ + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = mapped;
    if (slack) {
      const std::size_t before = -reinterpret_cast<std::uintptr_t>(mapped) % kHugePage;
      data_ = static_cast<std::uint8_t*>(mapped) + before;
      if (before) munmap(mapped, before);
      // The last page of ours may begin here; what is behind it goes back.
      const std::size_t end = (bytes_ + kPage - 1) / kPage * kPage;
      if (bytes_ + slack - before > end) munmap(as<std::uint8_t>() + end, bytes_ + slack - before - end);
    }
#ifdef MADV_HUGEPAGE
    madvise(data_, bytes_, MADV_HUGEPAGE);
#endif
  }
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory() {
    if (data_) munmap(data_, bytes_);
  }

  template <class T = std::uint8_t>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kHugePage = std::size_t{2} << 20, kPage = 4096;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Many pieces side by side, freed together. A matrix on its own may be smaller than a huge page and then lies in small
// ones, where reading stumbles at the end of each: one thread streamed Q4_1 weights at 11 GB/s instead of 15.
class MemoryPieces {
 public:
  // Zeroed, 64-byte aligned, as long-lived as this.
  std::uint8_t* take(std::size_t bytes) {
    const std::size_t whole = (bytes + 63) / 64 * 64;
    if (whole > left_) {
      chunks_.emplace_back(std::max(whole, kChunk));
      next_ = chunks_.back().as<std::uint8_t>();
      left_ = chunks_.back().bytes();
    }
    left_ -= whole;
    return std::exchange(next_, next_ + whole);
  }

 private:
  static constexpr std::size_t kChunk = std::size_t{32} << 20;

  std::vector<Memory> chunks_;
  std::uint8_t* next_ = nullptr;
  std::size_t left_ = 0;
};

// Takes the pages of a file mapping out of this process; the system's file cache keeps them. Only for memory that is
// an unwritten view of a file: other memory would lose its contents.
inline void drop_mapped_pages(const std::uint8_t* data, std::size_t bytes) {
  constexpr std::uintptr_t page = 4096;
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  // Where pages are larger the call fails, and the pages just stay.
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace halfline
