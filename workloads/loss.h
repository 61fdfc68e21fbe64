// Losses: the mean over the rows. What autocast left in half a word is widened first.
#pragma once

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>

namespace dpbench {

inline at::Tensor widened(const at::Tensor& output) {
  return at::isReducedFloatingType(output.scalar_type()) ? output.to(at::kFloat) : output;
}

inline at::Tensor mean_squared_error(const at::Tensor& output, const at::Tensor& target) {
  const auto wide = widened(output);
  const bool alike = target.scalar_type() == wide.scalar_type();
  return at::mse_loss(wide, alike ? target : target.to(wide.scalar_type()));
}

inline at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  return at::cross_entropy_loss(widened(logits), labels);
}

}  // namespace dpbench
