// All elements of several tensors in equal shares, one for each thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dpbench {

// Calls of(i, from, to) for what share `part` of `parts` has of element i's sizes[i] elements. A share begins at a multiple of 64 elements: whole
// vectors stay whole, and what a kernel does with the rest of a tensor it does only at its end.
template <class Sizes, class Of>
void each_in_share(const Sizes& sizes, int part, int parts, const Of& of) {
  constexpr int64_t whole = 64;
  int64_t total = 0, begin = 0;
  for (const int64_t size : sizes) total += size;
  const auto border = [&](int64_t at, int64_t size) {
    const int64_t here = total * at / parts - begin;
    return here >= size ? size : std::max<int64_t>(here, 0) / whole * whole;
  };
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t from = border(part, sizes[i]), to = border(part + 1, sizes[i]);
    if (from < to) of(i, from, to);
    begin += sizes[i];
  }
}

}  // namespace dpbench
