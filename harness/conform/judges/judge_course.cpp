#include "harness/conform/judges/judge_course.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/course_bounds.h"
#include "harness/conform/judges/votes.h"

namespace dpbench {
namespace {

// Largest number of courses that are computed with different roundings. Rounding may move an activation near zero to
// either side, so only some of the courses agree with the strategy.
constexpr size_t most_roundings = 32;
// Largest number of such courses for a large model: audits compare only some of its elements. Its courses take long.
constexpr size_t most_roundings_of_large_models = 8;
// If the error after the first course with rounding is above this multiple of its bound, rounding is not the cause, so
// no further course is computed. Rounding once changed the momentum of convnet's conv1 by 1,329 times its bound.
constexpr double rounding_explains = 1e5;

constexpr char diverged_text[] =
    "the ranks have different parameters: gradients are not reduced in steps that nobody looks at";

std::string at_rank(const Trial& trial, size_t rank) { return ", rank " + std::to_string(trial.ranks[rank].rank); }

std::string step_text(const Trial& trial, size_t step) {
  return std::to_string(trial.scenario.first + static_cast<int64_t>(step));
}

std::string after(const Trial& trial) {
  return " after step " + step_text(trial, static_cast<size_t>(trial.scenario.steps) - 1) + ", " +
         std::to_string(trial.scenario.steps) + " steps after the last look at the strategy";
}

// Returns e.g. " (of 100 elements from number 7 on, 5 apart)" if only some elements of the parameter were compared;
// otherwise an empty string.
std::string sampled(const Trial& trial, const at::Tensor& compared, const std::string& name) {
  const at::Tensor* whole = find(trial.ranks[0].parameters, name);
  if (!whole || trial.scenario.sample.takes_all(whole->numel())) return "";
  return " (of " + std::to_string(compared.numel()) + " elements from number " +
         std::to_string(trial.scenario.sample.first(whole->numel())) + " on, " +
         std::to_string(trial.scenario.sample.stride(whole->numel())) + " apart)";
}

// Each function .._mistake() returns the strategy's likely mistake, given a wrong value.

std::string loss_mistake(const Trial& trial, size_t rank, size_t step) {
  if (step == 0) return "the loss of other samples or of other parameters than the reported ones";
  const bool known = trial.ranks[rank].steps[step - 1].loss.defined();
  return "a step before it did not update the parameters as declared" +
         (known ? "; up to step " + step_text(trial, step - 1) + " the losses are right" : "");
}

bool same_parameters(const Trial& trial, size_t rank, size_t other) {
  const auto &mine = trial.ranks[rank].steps.back().parameters, &its = trial.ranks[other].steps.back().parameters;
  for (const auto& [name, tensor] : mine)
    if (const at::Tensor* found = find(its, name);
        !is_in(trial.bench.strategy.own, name) && found && !same_bits(*found, tensor))
      return false;
  return true;
}

std::string parameter_mistake(const Trial& trial, size_t rank, const at::Tensor& start, const at::Tensor& found,
                              const at::Tensor& due) {
  const at::Tensor change = found.to(at::kDouble) - start.to(at::kDouble),
                   right = due.to(at::kDouble) - start.to(at::kDouble);
  if (!change.any().item<bool>()) return "not updated in steps that nobody looks at";
  const at::Tensor still = change.eq(0).logical_and(right.ne(0));
  if (const auto count = still.sum().item<int64_t>(); count > 0)
    return std::to_string(count) + " of " + std::to_string(change.numel()) + " elements were not updated";
  const double size = right.square().sum().item<double>(), ratio = (change * right).sum().item<double>() / size;
  if (size > 0 && relative_error(change, right * ratio, 0) < 1e-3)
    return "moved " + short_number(std::round(ratio * 1e4) / 1e4) +
           " times as far as declared: steps left out or taken twice, or another scale of the gradient";
  for (size_t other = 0; other < trial.ranks.size(); ++other)
    if (!same_parameters(trial, rank, other)) return diverged_text;
  return "updated with another gradient, of other samples or parameters, or with another optimizer state";
}

// Returns the likely mistake behind a wrong tensor of the optimizer state. expected: all state tensors of the rank in
// the course.
std::string state_mistake(const NamedTensors& expected, const StateName& name, const at::Tensor& found) {
  if (name.slot == Slot::step)
    return "counts steps in which the parameter had no gradient, or leaves out steps in which it had one";
  for (const Slot other : {Slot::momentum, Slot::variance})
    if (const at::Tensor* due = find(expected, state_name(name.parameter, other));
        due && name.slot != other && relative_error(found, *due, 0) < 1e-3)
      return "momentum and variance are swapped";
  return "another gradient, another decay, or a step left out or taken twice";
}

// Compares a strategy's losses, outputs, parameters and buffers with those of a course.
class Comparison {
 public:
  Comparison(const Trial& trial, const Course& expected, const RoundingErrors& rounding)
      : trial_(trial), expected_(expected), rounding_(rounding), bounds_(trial, expected, rounding) {}

  Deviation run() {
    for (size_t rank = 1; rank < trial_.ranks.size(); ++rank) start(rank);
    // Only the first failure is described. The losses of all steps are compared first, because they show where a
    // mistake begins; a single loss is compared last, because the parameters show more.
    const bool every_loss = trial_.ranks[0].steps.size() > 1 && trial_.ranks[0].steps[0].loss.defined();
    if (every_loss) passes();
    for (size_t rank = 0; rank < trial_.ranks.size(); ++rank) {
      parameters(rank);
      buffers(rank);
    }
    for (size_t i = 0; i < expected_.hidden_roundings.size(); ++i) hidden_rounding(i);
    if (!every_loss) passes();
    return worst_;
  }

 private:
  std::string at_end(size_t rank) const { return at_rank(trial_, rank) + after(trial_); }

  // Checks that a rank's parameters before the first step equal rank 0's.
  void start(size_t rank) {
    if (trial_.bench.strategy.gradient == Gradient::local) return;
    for (const auto& [name, whole] : trial_.ranks[0].parameters) {
      const at::Tensor found = trial_.start(rank, name), due = trial_.start(0, name);
      if (is_in(trial_.bench.strategy.own, name) || (found.defined() && (found.is_same(due) || same_bits(found, due))))
        continue;
      worst_.add(
          std::numeric_limits<double>::infinity(),
          [&, &name = name] {
            return "parameter " + name + " before step " + step_text(trial_, 0) + ", " + first_difference(found, due) +
                   sampled(trial_, due, name) + at_rank(trial_, rank);
          },
          diverged_text);
      return;
    }
  }

  void passes() {
    for (size_t rank = 0; rank < trial_.ranks.size(); ++rank) {
      losses(rank);
      output(rank);
    }
  }

  void losses(size_t rank) {
    const auto& steps = trial_.ranks[rank].steps;
    for (size_t step = 0; step < steps.size(); ++step) {
      const at::Tensor &due = expected_.ranks[rank].losses[step], &found = steps[step].loss;
      if (!due.defined() || !found.defined() || found.numel() != 1) continue;
      const double loss = due.item<double>(), reported = found.item<double>();
      worst_.add(
          std::abs(reported - loss) / bounds_.of_loss(rank, loss),
          [&] {
            return "the loss of step " + step_text(trial_, step) + ": " + expected_and_found(loss, reported) +
                   at_rank(trial_, rank);
          },
          [&] { return loss_mistake(trial_, rank, step); });
    }
  }

  void output(size_t rank) {
    const at::Tensor &due = expected_.ranks[rank].output, &found = trial_.ranks[rank].steps.back().output;
    if (!due.defined() || !found.defined()) return;
    worst_.add(
        relative_error(found, due, 0) / bounds_.of_output(rank),
        [&] { return "the output of the last step, " + first_difference(found, due) + at_end(rank); },
        "computed with other parameters than the reported ones");
  }

  void parameters(size_t rank) {
    for (const auto& [name, due] : expected_.ranks[rank].parameters) {
      const at::Tensor* found = find(trial_.ranks[rank].steps.back().parameters, name);
      const at::Tensor start = trial_.start(rank, name);
      if (!found || !start.defined() || found->sizes() != due.sizes()) {
        worst_.add(std::numeric_limits<double>::infinity(), "parameter " + name + " is missing" + at_end(rank));
        continue;
      }
      if (!due.is_floating_point()) continue;
      worst_.add(
          largest_ratio(*found, due, bounds_.of_parameter(rank, name, *found, due)),
          [&, &name = name, &due = due] {
            return "parameter " + name + ", " + first_difference(*found, due) + sampled(trial_, due, name) +
                   at_end(rank);
          },
          [&, &due = due] { return parameter_mistake(trial_, rank, start, *found, due); });
    }
  }

  void buffers(size_t rank) {
    for (const auto& [name, due] : expected_.ranks[rank].buffers) {
      const at::Tensor* found = find(trial_.ranks[rank].steps.back().buffers, name);
      // A missing buffer or a wrong size is reported by the check `buffers` instead.
      if (!found || found->sizes() != due.sizes()) continue;
      worst_.add(
          largest_difference(*found, due) / bounds_.of_buffer(rank, name, due),
          [&, &name = name, &due = due] {
            return "buffer " + name + ", " + first_difference(*found, due) + at_end(rank);
          },
          "does not follow the declared rule in steps that nobody looks at");
    }
  }

  void hidden_rounding(size_t index) {
    const HiddenRounding& mistake = expected_.hidden_roundings[index];
    const Votes votes = votes_of(mistake, trial_.ranks[0].steps.back().parameters, trial_, expected_);
    // Groups of elements vote on the mistake (see Votes). Rounding may move many groups the same way, so a majority may
    // vote for a mistake that was not made. The strategy may therefore have twice the majority of any course with
    // rounding.
    const double allowed = rounding_.courses > 0 ? std::max(1.0, 2 * rounding_.votes[index]) : 1;
    worst_.add(
        votes.error() / allowed,
        [&] {
          return "parameters, each within its bound: " + std::to_string(votes.in_favour()) + " of " +
                 std::to_string(votes.groups()) + " rows err as if " + mistake.what + " were rounded" + after(trial_);
        },
        mistake.what + " are rounded to bfloat16");
  }

  const Trial& trial_;
  const Course& expected_;
  const RoundingErrors& rounding_;
  CourseBounds bounds_;
  Deviation worst_;
};

}  // namespace

void Deviation::add(double more, const LazyText& place, const LazyText& mistake) {
  if (std::isnan(more)) more = std::numeric_limits<double>::infinity();
  if (more > 1 && where.empty()) where = place(), likely = mistake();
  error = std::max(error, more);
}

Deviation course_deviation(const Trial& trial, const Course& expected, const RoundingErrors& rounding) {
  return Comparison(trial, expected, rounding).run();
}

Deviation state_deviation(const Trial& trial, const Course& expected, const RoundingErrors& rounding) {
  const CourseBounds bounds(trial, expected, rounding);
  Deviation worst;
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank)
    for (const auto& [name, due] : expected.ranks[rank].state) {
      const at::Tensor* found = find(trial.ranks[rank].steps.back().state, name);
      if (!found) continue;
      if (found->numel() != due.numel()) {
        worst.add(std::numeric_limits<double>::infinity(), "state " + name + " has sizes " + c10::str(found->sizes()) +
                                                               ", expected " + c10::str(due.sizes()) +
                                                               at_rank(trial, rank));
        continue;
      }
      worst.add(
          largest_difference(found->reshape(due.sizes()), due) / bounds.of_state(rank, name),
          [&, &name = name, &due = due] {
            return "state " + name + ", " + first_difference(*found, due) + at_rank(trial, rank) + after(trial);
          },
          [&, &name = name] { return state_mistake(expected.ranks[rank].state, split_state_name(name), *found); });
    }
  return worst;
}

Deviations deviations_of(const Trial& trial, const Course& expected) {
  const bool rounds = trial.scenario.dtype != at::kDouble || trial.bench.strategy.reduced_in;
  const size_t most = trial.scenario.sample.most_elements > 0 ? most_roundings_of_large_models : most_roundings;
  RoundingErrors rounding;
  while (true) {
    Deviations found{course_deviation(trial, expected, rounding), state_deviation(trial, expected, rounding)};
    const double error = std::max(found.course.error, found.state.error);
    if (!rounds || error <= 1 || rounding.courses == most || (rounding.courses > 0 && error > rounding_explains))
      return found;
    rounding.add(
        trial, expected,
        course_of(trial.bench, trial.scenario, trial.clip_norm, trial.ranks, /*exact=*/false, rounding.courses));
  }
}

void judge_other_state(const Trial& trial, Rows& rows) {
  const char compared[] = "a step from a loaded state of another training with the oracle's, optimizer state included";
  const Course exact = course_of(trial.bench, trial.scenario, trial.clip_norm, trial.ranks, /*exact=*/true);
  const std::string& check = trial.scenario.gradient_check;
  if (!exact.unknown.empty()) return rows.skipped(check, compared, exact.unknown);
  const auto [step, state] = deviations_of(trial, exact);
  const Deviation& worst = step.error > 1 || step.error >= state.error ? step : state;
  rows.measured(check, compared, worst.error, 1, worst.where + ", scenario " + trial.scenario.name,
                "load() left something as it was, or the step depends on more than the loaded state");
}

void judge_unwatched(const Trial& trial, Rows& rows) {
  const Course course = course_of(trial.bench, trial.scenario, trial.clip_norm, trial.ranks, /*exact=*/true);
  const std::string steps = std::to_string(trial.scenario.steps) + " steps that nobody looks at";
  const std::string compared = "losses, parameters and buffers of " + steps + " with the oracle's own",
                    compared_state = "optimizer state after " + steps + " with the oracle's own, by its name";
  if (!course.unknown.empty()) {
    rows.skipped("trajectory", compared, course.unknown);
    return rows.skipped("optimizer-state", compared_state, course.unknown);
  }
  const auto place = [&](const Deviation& deviation) { return deviation.where + ", scenario " + trial.scenario.name; };
  const auto [found, state] = deviations_of(trial, course);
  rows.measured("trajectory", compared, found.error, 1, place(found), found.likely);
  const auto& reported = trial.ranks[0].steps.back().state;
  for (const auto& [name, due] : course.ranks[0].state)
    if (!find(reported, name) && due.any().item<bool>())
      return rows.skipped("optimizer-state", compared_state, "state() has no tensor \"" + name + "\"");
  if (course.ranks[0].state.empty())
    return rows.skipped("optimizer-state", compared_state, "the optimizer has no state");
  rows.measured("optimizer-state", compared_state, state.error, 1, place(state), state.likely);
}

}  // namespace dpbench
