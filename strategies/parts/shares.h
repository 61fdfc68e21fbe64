// All elements of several tensors in equal shares, one for each thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

// Calls of(i, from, to) for what share `part` of `parts` has of tensor i, which has sizes[i] elements. A share begins
// at a multiple of 64 elements: whole vectors stay whole, and what a kernel does with the rest of a tensor it does only
// at its end.
template <class Of>
void each_in_share(const std::vector<int64_t>& sizes, int part, int parts, const Of& of) {
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

// Whether two tensors of one shape have each element at the same place of their memory. The stride of a dimension of 1
// says nothing.
inline bool lie_alike(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

// Elements from .. to - 1 of a dense tensor, in the order they have in memory.
inline at::Tensor range_of(const at::Tensor& tensor, int64_t from, int64_t to) {
  return tensor.as_strided({to - from}, {1}, tensor.storage_offset() + from);
}

}  // namespace dpbench
