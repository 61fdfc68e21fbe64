// Tables that list, for each of a model's parameters and buffers, the blocks that use it. From them strategies assign
// tensors to pipeline stages and to units of sharded parameters.
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

  // True if at least one of the blocks first .. last - 1 uses the tensor.
  bool used_in(size_t first, size_t last) const;
};

// Return a model's parameters, or its buffers, each once and in the model's order. Throw if a block uses a tensor that
// is not registered in the model.
std::vector<TableRow> parameter_table(const Model& model);
std::vector<TableRow> buffer_table(const Model& model);

}  // namespace dpbench
