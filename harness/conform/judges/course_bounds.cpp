#include "harness/conform/judges/course_bounds.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/votes.h"
#include "harness/conform/oracle/optimizer_replay.h"

namespace dpbench {
namespace {

// Allowed error of a course in float64, relative to how far the parameters move. It is 15 times the largest error
// measured for a correct strategy (convnet, where Adam enlarges gradients that cancel to zero), and a hundredth of the
// smallest error measured for a wrong strategy.
constexpr double course_bound = 1e-8;
// A strategy may differ from the float64 course (steps computed by the oracle) by this multiple of the oracle's own
// rounding error, which is measured by computing the course in the strategy's dtype too.
constexpr double course_factor = 8;
// Allowed relative error after several steps, in units of roundoff of the dtype in which gradients are communicated.
constexpr double communicated_roundings = 64;

// Returns the root mean square of the last output, the scale of a loss's rounding errors.
double output_size(const at::Tensor& output) {
  return output.defined() && output.numel() ? norm({output}) / std::sqrt(static_cast<double>(output.numel())) : 0;
}

// Returns for each kind of state, e.g. momentum, the largest value that it has for any parameter.
std::map<std::optional<Slot>, double> largest_values(const NamedTensors& state) {
  std::map<std::optional<Slot>, double> most;
  for (const auto& [name, tensor] : state) {
    double& value = most[split_state_name(name).slot];
    value = std::max(value, largest_element(tensor));
  }
  return most;
}

// Raises the largest error of each tensor, e.g. of each parameter, to its difference from `exact`.
void raise(std::map<std::string, double>& errors, const NamedTensors& exact, const NamedTensors& rough) {
  for (const auto& [name, due] : exact)
    if (const at::Tensor* found = find(rough, name))
      errors[name] = std::max(errors[name], largest_difference(*found, due));
}

double usual_error(const Trial& trial, const Course& expected, const Course& rounded) {
  std::vector<at::Tensor> errors, changes;
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank)
    for (const auto& [name, due] : expected.ranks[rank].parameters) {
      const at::Tensor *found = find(rounded.ranks[rank].parameters, name), start = trial.start(rank, name);
      if (!found || !start.defined() || !due.is_floating_point()) continue;
      errors.push_back(found->to(at::kDouble) - due.to(at::kDouble));
      changes.push_back(due.to(at::kDouble) - start.to(at::kDouble));
    }
  const double change = norm(changes);
  return change > 0 ? norm(errors) / change : 0;
}

}  // namespace

void RoundingErrors::add(const Trial& trial, const Course& expected, const Course& rounded) {
  if (courses++ == 0) {
    ranks.resize(trial.ranks.size());
    votes.resize(expected.hidden_roundings.size());
    usual = usual_error(trial, expected, rounded);
  }
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank) {
    const CourseEnd &exact = expected.ranks[rank], &rough = rounded.ranks[rank];
    for (size_t step = 0; step < exact.losses.size(); ++step)
      if (exact.losses[step].defined())
        loss = std::max(loss, largest_difference(rough.losses[step], exact.losses[step]));
    if (exact.output.defined())
      ranks[rank].output = std::max(ranks[rank].output, relative_error(rough.output, exact.output, 0));
    raise(ranks[rank].parameters, exact.parameters, rough.parameters);
    raise(ranks[rank].buffers, exact.buffers, rough.buffers);
    raise(ranks[rank].state, exact.state, rough.state);
  }
  for (size_t i = 0; i < votes.size(); ++i)
    votes[i] = std::max(
        votes[i],
        std::abs(votes_of(expected.hidden_roundings[i], rounded.ranks[0].parameters, trial, expected).error()));
}

CourseBounds::CourseBounds(const Trial& trial, const Course& expected, const RoundingErrors& rounding)
    : trial_(trial),
      expected_(expected),
      rounding_(rounding),
      spec_(trial.workload().optimizer()),
      rounds_(rounding.courses > 0 || trial.scenario.dtype != at::kDouble),
      relative_(rounds_ ? pass_bound(trial.scenario.dtype) : course_bound),
      rates_(sum_of_learning_rates(spec_, trial.scenario.first, trial.scenario.steps)) {
  if (const auto type = trial.bench.strategy.reduced_in)
    relative_ = std::max(relative_, communicated_roundings * unit_roundoff(*type));
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank) {
    moved_.push_back(largest_move(trial, expected, rank));
    largest_state_.push_back(largest_values(expected.ranks[rank].state));
  }
}

// Returns the largest error of one tensor, e.g. a parameter, in any course with rounding.
double CourseBounds::rounding(size_t rank, std::map<std::string, double> RoundingErrors::Rank::* errors,
                              const std::string& name) const {
  if (rounding_.courses == 0) return 0;
  const auto& known = rounding_.ranks[rank].*errors;
  const auto found = known.find(name);
  return found == known.end() ? 0 : found->second;
}

double CourseBounds::of_loss(size_t rank, double due) const {
  return relative_ * std::max({std::abs(due), output_size(expected_.ranks[rank].output), 1e-30}) +
         course_factor * rounding_.loss;
}

double CourseBounds::of_output(size_t rank) const {
  return relative_ + (rounding_.courses > 0 ? course_factor * rounding_.ranks[rank].output : 0);
}

at::Tensor CourseBounds::of_parameter(size_t rank, const std::string& name, const at::Tensor& found,
                                      const at::Tensor& due) const {
  const at::Tensor start = trial_.start(rank, name);
  const double most = moved_[rank], steps = static_cast<double>(trial_.scenario.steps);
  const double roundings =
      // number of roundings of the parameter in the course, each of which adds to its error
      (spec_.weight_decay == 0 ? 1 : 3) * steps + 4;
  const double u = unit_roundoff(start.scalar_type()), moved = largest_difference(due, start);
  double noise = relative_ * (rounds_ ? std::max(moved, 1e-3 * most) : most);
  noise += course_factor * std::max(rounding(rank, &RoundingErrors::Rank::parameters, name), rounding_.usual * moved);
  if (spec_.kind == OptimizerSpec::Kind::adam) noise += adam_roundings * u * rates_ + by_rounding(rank, name);
  const at::Tensor bound = due.to(at::kDouble).abs() * (roundings * u) + noise;
  return rounds_ ? widened(bound, found, due) : bound;
}

// Returns how far Adam may move a parameter whose gradients are only rounding errors. The exact gradient of the bias of
// attention's keys, for example, is zero. Adam's variance shows how large the gradients are. Gradients above epsilon
// are no rounding errors.
double CourseBounds::by_rounding(size_t rank, const std::string& name) const {
  const at::Tensor* variance = find(expected_.ranks[rank].state, state_name(name, Slot::variance));
  if (!rounds_ || !variance) return 0;
  const auto steps = static_cast<double>(trial_.scenario.first + trial_.scenario.steps);
  const double size = std::sqrt(largest_element(*variance) / (1 - std::pow(spec_.beta2, steps)));
  return size < spec_.epsilon ? rates_ * size / spec_.epsilon : 0;
}

// Adam moves each element by about the learning rate in each step. If the gradient of an element nearly cancels,
// rounding decides the direction. So a thousandth of the elements may differ by twice the sum of the learning rates.
at::Tensor CourseBounds::widened(const at::Tensor& bound, const at::Tensor& found, const at::Tensor& due) const {
  if (spec_.kind != OptimizerSpec::Kind::adam || due.numel() == 0) return bound;
  const at::Tensor excess = ((found.to(at::kDouble) - due.to(at::kDouble)).abs() / bound).flatten();
  const int64_t few = 1 + due.numel() / 1000;
  const at::Tensor which = std::get<1>(excess.topk(std::min(few, excess.numel())));
  at::Tensor wide = bound.expand_as(due).clone(at::MemoryFormat::Contiguous);
  wide.view({-1}).index_add_(0, which, at::full({which.numel()}, 2 * rates_, wide.options()));
  return wide;
}

double CourseBounds::of_buffer(size_t rank, const std::string& name, const at::Tensor& due) const {
  // integers differ by at least 1, so this bound accepts only equal integer buffers
  if (!due.is_floating_point()) return 0.5;
  return relative_ * std::max(largest_element(due.to(at::kDouble)), 1e-30) +
         course_factor * rounding(rank, &RoundingErrors::Rank::buffers, name);
}

// If the gradient is zero by cancellation, the state (e.g. momentum) holds only rounding errors. The bound is therefore
// relative to the largest value that the same kind of state has for any parameter.
double CourseBounds::of_state(size_t rank, const std::string& name) const {
  const auto slot = split_state_name(name).slot;
  if (slot == Slot::step) return 0.5;  // step counts differ by at least 1, so this bound accepts only equal counts
  return relative_ * std::max(largest_state_[rank].at(slot), 1e-30) +
         course_factor * rounding(rank, &RoundingErrors::Rank::state, name);
}

}  // namespace dpbench
