// Describes which part of a step's outputs is wrong.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace dpbench {

// Returns the part of the outputs that is wrong: the outputs from a token on, some samples, or some indices of another
// dimension, e.g. "only indices 4 to 10 of dimension 1 are wrong". Returns an empty string if no such part is.
// input: the samples. tolerance: allowed difference of an output, as a share of the largest expected output.
std::string output_pattern(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& input,
                           double tolerance);

}  // namespace dpbench
