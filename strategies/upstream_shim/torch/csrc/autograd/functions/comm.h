// Declares Scatter and Gather, which LibTorch's data_parallel.h uses. LibTorch's own header of this name includes CUDA
// headers, so it cannot be compiled on machines without CUDA. Our code must not construct these types.
#pragma once

#include <optional>
#include <vector>

#include <torch/csrc/autograd/function.h>

namespace torch::autograd {

struct Scatter : Node {
  Scatter(std::vector<at::Device> devices, std::optional<std::vector<int64_t>> chunk_sizes, int64_t dim);
  variable_list apply(variable_list&& inputs) override;
};

struct Gather : Node {
  Gather(const at::Device& destination, int64_t dim);
  variable_list apply(variable_list&& inputs) override;
};

}  // namespace torch::autograd
