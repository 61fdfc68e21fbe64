// Describes which part of a step's outputs is wrong.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "workloads/base/mesh_shape.h"

namespace dpbench {

// Returns the part of the outputs that is wrong: the outputs from a token on, some samples, or some indices of another
// dimension, e.g. "only indices 4 to 10 of dimension 1 are wrong". Returns an empty string if the wrong elements do not
// form such a part. If the wrong tokens are whole pieces of the sequence, the text names the ranks that have these
// pieces. input: the samples. tolerance: allowed difference of an output, as a share of the largest expected output.
std::string output_pattern(const at::Tensor& found, const at::Tensor& expected, const at::Tensor& input,
                           const MeshShape& mesh, double tolerance);

// Returns the order of the tokens, e.g. "tokens in the wrong order: 4 to 10, 0 to 3", if each token has the output
// expected for another token. Outputs have the dimensions samples, tokens, and more. Returns an empty string otherwise,
// and for outputs that are not finite.
std::string token_order(const at::Tensor& found, const at::Tensor& expected, double tolerance);

}  // namespace dpbench
