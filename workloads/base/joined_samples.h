// Joins tensors of samples along their first dimension. batch() may pad its samples to the longest of them. So the
// samples of two batches may have different shapes.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

// Returns true if the samples in all tensors have the same shape.
bool same_sample_shapes(const std::vector<at::Tensor>& parts);
// Concatenates the tensors. Smaller samples are padded with zeros.
at::Tensor joined_samples(const std::vector<at::Tensor>& parts);

}  // namespace dpbench
