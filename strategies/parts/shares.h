// Splits the elements of several tensors into equal shares, one per thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

// Calls body(i, from, to) for each range of tensor i (with sizes[i] elements) that belongs to share `part` of `parts`.
// Ranges start at multiples of 64 elements, so that no SIMD vector is split and a kernel's scalar tail code runs only
// at the end of a tensor.
template <class Body>
void for_each_in_share(const std::vector<int64_t>& sizes, int part, int parts, const Body& body) {
  constexpr int64_t whole = 64;
  int64_t total = 0, begin = 0;
  for (const int64_t size : sizes) total += size;
  const auto border = [&](int64_t at, int64_t size) {
    const int64_t here = total * at / parts - begin;
    return here >= size ? size : std::max<int64_t>(here, 0) / whole * whole;
  };
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t from = border(part, sizes[i]), to = border(part + 1, sizes[i]);
    if (from < to) body(i, from, to);
    begin += sizes[i];
  }
}

// Returns true if two tensors of the same shape have the same memory layout: equal strides, except in dimensions of
// size 1.
inline bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

// Returns elements from .. to - 1 of a dense tensor, in memory order.
inline at::Tensor range_of(const at::Tensor& tensor, int64_t from, int64_t to) {
  return tensor.as_strided({to - from}, {1}, tensor.storage_offset() + from);
}

}  // namespace dpbench
