// Timing that several benchmarks share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dpbench::micro {

// Returns the number of timed iterations. It depends only on the size, so that all ranks use the same number.
inline int64_t iterations_of(int64_t bytes) {
  return std::clamp<int64_t>((64 << 20) / std::max<int64_t>(bytes, 1), 5, 200);
}

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace dpbench::micro
