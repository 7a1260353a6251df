// Page-aligned, zeroed, lazily touched memory, with huge pages where the system gives them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace halfline {

class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes) : bytes_(bytes ? bytes : 1) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) {
      data_ = nullptr;
      throw std::bad_alloc();
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
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
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
