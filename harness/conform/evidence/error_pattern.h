// Describes which elements of a tensor are wrong: one element, a row, a column, all from some index on.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace dpbench {

// Returns e.g. "only row 2 is wrong: 0.5 times the expected value". Returns an empty string if none or nearly all
// elements are wrong, or if more than half are wrong without such a pattern. An element is wrong if its error exceeds
// `tolerance` times the largest expected value. Both tensors have the same shape.
std::string error_pattern(const at::Tensor& found, const at::Tensor& expected, double tolerance);

}  // namespace dpbench
