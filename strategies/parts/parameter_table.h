// Tables of a model's parameters and buffers, from which strategies assign tensors to pipeline stages and units.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/api/workload.h"

namespace dpbench {

struct TableRow {
  std::string name;  // the tensor's first name
  at::Tensor tensor;
  std::vector<size_t> blocks =
      {};  // the model's blocks that use the tensor, in ascending order; a tied tensor has several

  // True if a block of first .. last - 1 uses the tensor.
  bool used_in(size_t first, size_t last) const;
};

// These functions return each tensor once, in the order of the model's names. They throw if a tensor of a block is not
// registered in its model.
std::vector<TableRow> parameter_table(const Model& model);
std::vector<TableRow> buffer_table(const Model& model);

}  // namespace dpbench
