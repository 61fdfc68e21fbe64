// Upstream's data_parallel.h names Scatter and Gather, whose own header wants CUDA's, which a machine without CUDA
// lacks. These declarations let it be read. Nothing declared here may be constructed by our code.
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
