// Loss functions, averaged over the samples (mean_squared_error(): over all elements). Outputs that autocast left in a
// 16-bit dtype are converted to float32 first.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

at::Tensor mean_squared_error(const at::Tensor& output, const at::Tensor& target);
at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& labels);
// Returns the cross-entropy as a sum over the samples, not as their mean.
at::Tensor summed_cross_entropy(const at::Tensor& output, const at::Tensor& labels);

}  // namespace dpbench
