// A part of a tensor: a rectangular block of its elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct TensorPart {
  std::string name;  // name of the whole tensor
  at::Tensor values;
  // first: for each dimension, the index in the whole tensor at which the part begins. sizes: the sizes of the whole
  // tensor.
  std::vector<int64_t> first, sizes;
};

// Returns a part that covers the whole tensor.
inline TensorPart whole_part(const std::string& name, const at::Tensor& tensor) {
  const std::vector<int64_t> sizes = tensor.sizes().vec();
  return {name, tensor, std::vector<int64_t>(sizes.size(), 0), sizes};
}

}  // namespace dpbench
