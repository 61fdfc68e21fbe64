// Whether two tensors have the same shape and bits; numbers that are not equal to themselves count.
#pragma once

#include <ATen/ATen.h>

namespace dpbench {

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         at::equal(a.reshape({-1}).view(at::kByte), b.reshape({-1}).view(at::kByte));
}

}  // namespace dpbench
