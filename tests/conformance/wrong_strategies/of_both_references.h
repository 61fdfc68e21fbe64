// Functions for batches, models and norms, shared by the two reference strategies (reference.h, sharded_reference.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "strategies/api/strategy.h"

namespace dpbench::wrong {

// Returns the batch for a computation in `dtype`: in float64 if `dtype` is float64, otherwise unchanged.
inline Batch cast_for(at::ScalarType dtype, const Batch& batch) {
  const auto convert = [&](const at::Tensor& tensor) {
    return tensor.is_floating_point() && dtype == at::kDouble ? tensor.to(at::kDouble) : tensor;
  };
  return {convert(batch.input), convert(batch.target), batch.ids};
}

// Converts a model's parameter or buffer to float64 if `dtype` is float64.
inline void widen_for(at::ScalarType dtype, at::Tensor tensor) {
  if (dtype == at::kDouble && tensor.is_floating_point()) tensor.set_data(tensor.to(at::kDouble));
}

// Returns the factor that clips a gradient to the norm `limit`. `squares` is the square of the gradient's norm.
inline double clip_factor(const std::optional<double>& limit, double squares) {
  return limit ? std::min(1.0, *limit / (std::sqrt(squares) + 1e-6)) : 1.0;
}

}  // namespace dpbench::wrong
