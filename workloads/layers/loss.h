// Losses: the mean over the rows. What autocast left in half a word is widened first.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

at::Tensor mean_squared_error(const at::Tensor& output, const at::Tensor& target);
at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& labels);

}  // namespace dpbench
