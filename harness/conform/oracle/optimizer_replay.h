// Computes the updates of one parameter by a workload's optimizer in float64.
#pragma once

#include <utility>

#include <ATen/core/Tensor.h>

#include "workloads/api/workload.h"

namespace dpbench {

// Allowed rounding error of an Adam update, in units of the learning rate times the dtype's roundoff. An update is a
// quotient of a running sum and a root, so dozens of roundings add up.
inline constexpr double adam_roundings = 64;

struct OptimizerReplay {
  at::Tensor momentum, variance;  // Adam's running means; undefined before the first step
  int64_t steps = 0;

  // Returns the change of the parameter in a step with this gradient, and the bound of the change's rounding error. u:
  // unit roundoff of the parameter's dtype.
  std::pair<at::Tensor, at::Tensor> step(const OptimizerSpec& spec, const at::Tensor& gradient, double u);
};

}  // namespace dpbench
