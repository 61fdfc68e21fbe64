#include "harness/conform/oracle/optimizer_replay.h"

#include <cmath>

#include <ATen/ATen.h>

namespace dpbench {

std::pair<at::Tensor, at::Tensor> OptimizerReplay::step(const OptimizerSpec& spec, const at::Tensor& gradient,
                                                        double u) {
  const at::Tensor g = gradient.to(at::kDouble);
  if (spec.kind == OptimizerSpec::Kind::sgd) return {-spec.learning_rate * g, g.abs() * (2 * u * spec.learning_rate)};
  if (!momentum.defined()) momentum = at::zeros_like(g), variance = at::zeros_like(g);
  ++steps;
  momentum = spec.beta1 * momentum + (1 - spec.beta1) * g;
  variance = spec.beta2 * variance + (1 - spec.beta2) * g.square();
  const at::Tensor mean = momentum / (1 - std::pow(spec.beta1, steps));
  const at::Tensor root = (variance / (1 - std::pow(spec.beta2, steps))).sqrt() + spec.epsilon;
  return {-spec.learning_rate * mean / root, at::full_like(g, adam_roundings * u * spec.learning_rate)};
}

}  // namespace dpbench
