// Turns a small run-time count into a template argument.
#pragma once

#include <utility>

namespace halfline {
namespace {

template <int N>
struct Count {
  static constexpr int value = N;
};

// Calls function(Count<count>{}); 1 <= count <= Max.
template <int Max, class F>
inline void with_count(int count, F&& function) {
  if constexpr (Max == 1) {
    function(Count<1>{});
  } else {
    if (count == Max) {
      function(Count<Max>{});
    } else {
      with_count<Max - 1>(count, std::forward<F>(function));
    }
  }
}

}  // namespace
}  // namespace halfline
