#include "strategies/api/named_tensors.h"

#include <ATen/ATen.h>

namespace dpbench {

const at::Tensor* find(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [known, tensor] : tensors)
    if (known == name) return &tensor;
  return nullptr;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  const at::Tensor mine = a.detach().cpu(), other = b.detach().cpu();
  if (!mine.is_floating_point()) return mine.equal(other);
  const at::Tensor equal = mine.eq(other).logical_or_(mine.isnan().logical_and_(other.isnan()));
  return equal.all().item<bool>() && mine.nan_to_num(0).signbit().equal(other.nan_to_num(0).signbit());
}

}  // namespace dpbench
