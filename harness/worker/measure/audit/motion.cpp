#include "harness/worker/measure/audit/motion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/oracle/optimizer_replay.h"

namespace dpbench {
namespace {

// Of each parameter with more elements than this, store at least this many elements and fewer than twice as many,
// because the distance between stored elements is rounded down.
constexpr int64_t most_elements = 256;
// Bound for SGD between two audits: no element may move, per unit of learning rate, by more than sgd_margin * fastest_
// (see Motion::fastest_). The margin is wide, because gradients change in training. Only replaced parameters exceed it.
constexpr double sgd_margin = 1000;
constexpr double infinite = std::numeric_limits<double>::infinity();

at::Tensor elements(const at::Tensor& tensor, const at::Tensor& indices) {
  return tensor.detach().cpu().reshape({-1}).index_select(0, indices).to(at::kDouble);
}

// Returns the optimizer's step count of a parameter; -1 if its state holds none.
double counted(const NamedTensors& state, const std::string& parameter) {
  const at::Tensor* steps = find(state, state_name(parameter, Slot::step));
  return steps ? steps->item<double>() : -1;
}

// Returns how far the steps of an audit moved a parameter: the largest distance of an element.
double moved_by_audit(const Evidence& seen, const std::string& name, const at::Tensor& after, const Sample& sample) {
  const at::Tensor* before = find(seen.parameters, name);
  if (!before || !after.is_floating_point() || after.numel() == 0) return 0;
  return largest_element(after.to(at::kDouble) - sample.of(*before).to(at::kDouble));
}

// Returns the largest ratio of Adam's mean of gradients to the root of its mean of squares. By Cauchy and Schwarz it is
// the root of the sum of w^2 / u over all steps, where w and u are a step's weights in the two means. Gradients that
// grow by beta2 / beta1 from step to step reach this bound.
double largest_adam_update(const OptimizerSpec& spec) {
  const double ratio = spec.beta1 * spec.beta1 / spec.beta2;
  if (ratio >= 1) return infinite;
  return std::max(1.0, (1 - spec.beta1) / std::sqrt((1 - spec.beta2) * (1 - ratio)));
}

// True if the steps of an audit moved a parameter by more than rounding errors. False after convergence.
bool still_learns(const Evidence& seen, const Sample& sample) {
  return std::ranges::any_of(seen.steps.back().parameters, [&](const auto& named) {
    const auto& [name, after] = named;
    return moved_by_audit(seen, name, after, sample) > 16 * unit_roundoff(after.scalar_type()) * largest_element(after);
  });
}

}  // namespace

// Returns the largest distance that an element with an absolute value of at most `largest` can move in `steps` steps.
double Motion::farthest(int64_t first, int64_t steps, double largest) const {
  const double rates = sum_of_learning_rates(optimizer_, first, steps);
  if (rates == 0) return 0;
  const double most =
      optimizer_.kind == OptimizerSpec::Kind::adam ? largest_adam_update(optimizer_) : sgd_margin * fastest_;
  // As long as no movement of a parameter has been measured, the size of SGD's gradients is unknown, so parameters may
  // move by any distance.
  if (most == 0 || most == infinite) return infinite;
  const double updates = rates * most;
  return (updates + rates * optimizer_.weight_decay * (largest + updates)) * 1.01;
}

Deviation Motion::since_last(int64_t first, const Evidence& seen, const Sample& sample) {
  const int64_t steps = first - next_;
  if (next_ < 0 || steps <= 0) return {};
  const std::string since = " in the " + std::to_string(steps) + " steps before step " + std::to_string(first);
  double most = 0, most_counts = -1;
  for (const Remembered& remembered : remembered_) {
    const at::Tensor* now = find(seen.parameters, remembered.name);
    if (!now) continue;
    const double moved = largest_element(elements(*now, remembered.indices) - remembered.values);
    const double rounding =
        largest_element(remembered.values) * unit_roundoff(now->scalar_type()) * static_cast<double>(steps);
    const double bound = farthest(next_, steps, largest_element(remembered.values));
    if (!(moved <= bound + rounding))
      return {infinite,
              "parameter " + remembered.name + " moved by " + short_number(moved) + since +
                  ", the optimizer can move it by " + short_number(bound),
              "replaced, or updated with another learning rate or gradient than in the audited steps"};
    most = std::max(most, moved);
    const double count = counted(seen.state, remembered.name);
    if (count < 0 || remembered.steps_counted < 0) continue;
    const double counts = count - remembered.steps_counted;
    most_counts = std::max(most_counts, counts);
    if (counts > static_cast<double>(steps))
      return {infinite,
              "the optimizer counted " + short_number(counts) + " steps of parameter " + remembered.name + since,
              "stepped more than once"};
  }
  // The largest count of all parameters must equal the number of steps. A parameter without a gradient counts no step,
  // but some parameter, e.g. the last layer's, has a gradient in every step.
  if (most_counts >= 0 && most_counts < static_cast<double>(steps) && !may_skip_)
    return {infinite, "the optimizer counted only " + short_number(most_counts) + " steps" + since,
            "not updated in steps that nobody looks at"};
  // After whole epochs, unmoved parameters are no error: after convergence, parameters may have the same values at the
  // end of each epoch, although every step moves them.
  const bool whole_epochs =
      steps % steps_per_epoch_ == 0 && static_cast<int64_t>(seen.steps.size()) % steps_per_epoch_ != 0;
  if (most == 0 && !whole_epochs && still_learns(seen, sample) && sum_of_learning_rates(optimizer_, next_, steps) > 0 &&
      !remembered_.empty())
    return {infinite, "no parameter moved" + since, "not updated in steps that nobody looks at"};
  return {};
}

void Motion::look(int64_t next, const NamedTensors& parameters, const NamedTensors& state) {
  const double rates = next_ < 0 ? 0 : sum_of_learning_rates(optimizer_, next_, next - next_);
  for (const Remembered& remembered : remembered_)
    if (const at::Tensor* now = find(parameters, remembered.name); now && rates > 0)
      fastest_ = std::max(fastest_, largest_element(elements(*now, remembered.indices) - remembered.values) / rates);
  store(next, parameters, state, parameters, {});
}

void Motion::remember(int64_t next, int64_t steps, const Evidence& seen, const Sample& sample) {
  const double rates = sum_of_learning_rates(optimizer_, next - steps, steps);
  const StepEvidence& last = seen.steps.back();
  for (const auto& [name, after] : last.parameters)
    if (rates > 0) fastest_ = std::max(fastest_, moved_by_audit(seen, name, after, sample) / rates);
  store(next, last.parameters, last.state, seen.parameters, sample);
}

void Motion::store(int64_t next, const NamedTensors& parameters, const NamedTensors& state, const NamedTensors& whole,
                   const Sample& sample) {
  next_ = next;
  remembered_.clear();
  for (const auto& [name, part] : parameters) {
    const at::Tensor* all = find(whole, name);
    if (!all || !part.is_floating_point() || part.numel() == 0) continue;
    const at::Tensor indices = at::arange(0, part.numel(), std::max<int64_t>(1, part.numel() / most_elements));
    const at::Tensor of_all = indices * sample.stride(all->numel()) + sample.first(all->numel());
    remembered_.push_back({name, of_all, elements(part, indices), counted(state, name)});
  }
}

}  // namespace dpbench
