// Computes the updates of one parameter by a workload's optimizer in float64.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "workloads/api/workload.h"

namespace dpbench {

// Allowed rounding error of an Adam update, in units of the learning rate times the dtype's roundoff. An update is a
// quotient of a running sum and a root, so dozens of roundings add up.
inline constexpr double adam_roundings = 64;

// Learning rate and weight decay of one parameter in one step.
struct UpdateRates {
  double learning = 0, decay = 0;
};
UpdateRates update_rates(const OptimizerSpec& spec, int64_t step, int64_t dimensions);
// Returns the sum of the learning rates of several steps.
double sum_of_learning_rates(const OptimizerSpec& spec, int64_t first, int64_t steps);

struct OptimizerReplay {
  at::Tensor momentum, variance;  // Adam's running means, SGD's momentum buffer; undefined before the first step
  int64_t steps = 0;
  at::Tensor buffer_rounding = {};  // bound of the momentum buffer's rounding error
  // State of a workload's own optimizer (OptimizerSpec::own), in float64 and in the parameter's dtype.
  std::vector<std::pair<std::string, at::Tensor>> own_state = {}, own_state_in_dtype = {};

  // Returns the change of the parameter in a step with this gradient, and the bound of the change's rounding error. u:
  // unit roundoff of the parameter's dtype; 0: no bound is needed.
  std::pair<at::Tensor, at::Tensor> step(const OptimizerSpec& spec, const UpdateRates& rates,
                                         const at::Tensor& parameter, const at::Tensor& gradient, double u);
  std::pair<at::Tensor, at::Tensor> sgd(const OptimizerSpec& spec, double rate, const at::Tensor& g, double u);
  std::pair<at::Tensor, at::Tensor> own(const OptimizerSpec& spec, double rate, const at::Tensor& parameter,
                                        const at::Tensor& gradient, double u);
};

}  // namespace dpbench
