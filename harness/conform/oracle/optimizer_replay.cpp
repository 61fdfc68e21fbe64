#include "harness/conform/oracle/optimizer_replay.h"

#include <cmath>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

// A strategy may differ from the float64 step of a workload's own optimizer by this multiple of the rounding error that
// a step in its dtype has.
constexpr double own_factor = 4;

}  // namespace

UpdateRates update_rates(const OptimizerSpec& spec, int64_t step, int64_t dimensions) {
  return {learning_rate(spec, step), weight_decay(spec, dimensions)};
}

double sum_of_learning_rates(const OptimizerSpec& spec, int64_t first, int64_t steps) {
  double sum = 0;
  for (int64_t step = first; step < first + steps; ++step) sum += learning_rate(spec, step);
  return sum;
}

std::pair<at::Tensor, at::Tensor> OptimizerReplay::step(const OptimizerSpec& spec, const UpdateRates& rates,
                                                        const at::Tensor& parameter, const at::Tensor& gradient,
                                                        double u) {
  const at::Tensor g = gradient.to(at::kDouble);
  ++steps;
  if (spec.own) return own(spec, rates.learning, parameter, gradient, u);
  if (spec.kind == OptimizerSpec::Kind::sgd) return sgd(spec, rates.learning, g, u);
  if (!momentum.defined()) momentum = at::zeros_like(g), variance = at::zeros_like(g);
  momentum = spec.beta1 * momentum + (1 - spec.beta1) * g;
  variance = spec.beta2 * variance + (1 - spec.beta2) * g.square();
  const at::Tensor mean = momentum / (1 - std::pow(spec.beta1, steps));
  const at::Tensor root = (variance / (1 - std::pow(spec.beta2, steps))).sqrt() + spec.epsilon;
  at::Tensor change = -rates.learning * mean / root, rounding = at::full_like(g, adam_roundings * u * rates.learning);
  if (rates.decay != 0) {
    const at::Tensor whole = parameter.to(at::kDouble);
    change = change - rates.learning * rates.decay * whole;
    // weight decay rounds twice: its factor, and the product with the parameter
    rounding = rounding + whole.abs() * (2 * u);
  }
  return {change, rounding};
}

// A rounding error in the momentum buffer decays by the factor `momentum` in each step, so the bound adds up over
// steps.
std::pair<at::Tensor, at::Tensor> OptimizerReplay::sgd(const OptimizerSpec& spec, double rate, const at::Tensor& g,
                                                       double u) {
  if (spec.momentum == 0) return {-rate * g, g.abs() * (2 * u * rate)};
  if (!momentum.defined()) momentum = at::zeros_like(g);
  if (!buffer_rounding.defined()) buffer_rounding = at::zeros_like(g);
  const at::Tensor kept = spec.momentum * momentum;
  momentum = kept + g;
  buffer_rounding = spec.momentum * buffer_rounding + (kept.abs() + momentum.abs()) * (2 * u);
  return {-rate * momentum, (buffer_rounding + momentum.abs() * (2 * u)) * rate};
}

// No formula bounds the rounding error of an unknown optimizer. It is measured by a step in the parameter's dtype.
std::pair<at::Tensor, at::Tensor> OptimizerReplay::own(const OptimizerSpec& spec, double rate,
                                                       const at::Tensor& parameter, const at::Tensor& gradient,
                                                       double u) {
  const at::Tensor before = parameter.to(at::kDouble);
  const at::Tensor after = spec.own->step(before, gradient.to(at::kDouble), rate, own_state);
  const at::Tensor change = after - before;
  if (u == 0 || change.numel() == 0) return {change, at::zeros_like(change)};
  const at::Tensor narrow =
      spec.own->step(parameter, gradient.to(parameter.scalar_type()), rate, own_state_in_dtype).to(at::kDouble);
  const double most = change.abs().max().item<double>();
  return {change, (narrow - after).abs() * own_factor + adam_roundings * u * most};
}

}  // namespace dpbench
