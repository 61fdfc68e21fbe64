// Checks that values agree between all ranks, between two runs of the same steps, and between a world of 1 and the
// single-device baseline: bit for bit, but updated parameters within rounding of the baseline's. Also checks the effect
// of a NaN or infinity in a sample.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/oracle/optimizer_replay.h"

namespace dpbench {
namespace {

std::string first_mismatch(const NamedTensors& found, const NamedTensors& expected) {
  if (found.size() != expected.size())
    return std::to_string(expected.size()) + " tensors expected, " + std::to_string(found.size()) + " found";
  for (const auto& [name, tensor] : expected) {
    const at::Tensor* mine = find(found, name);
    if (!mine) return name + " is missing";
    if (!mine->is_same(tensor) && !same_bits(*mine, tensor)) return name + ", " + first_difference(*mine, tensor);
  }
  return "";
}

// Returns the rounding error allowed in each element of a parameter after an update.
at::Tensor update_rounding(const at::Tensor& before, const at::Tensor& after) {
  if (after.numel() == 0 || !after.is_floating_point()) return at::zeros(after.sizes(), at::kDouble);
  constexpr double of_sum = 4;
  const double u = unit_roundoff(after.scalar_type());
  const at::Tensor wide = after.to(at::kDouble);
  const double largest = (wide - before.to(at::kDouble)).abs().max().item<double>();
  return wide.abs() * (of_sum * u) + (adam_roundings * u * largest + smallest_subnormal(after.scalar_type()));
}

using StepMember = NamedTensors StepEvidence::*;

// Returns the tensors except each rank's own: unsynchronized parameters and their optimizer state, which is named
// "<parameter>.<slot>", e.g. "fc.weight.momentum".
NamedTensors shared(const Trial& trial, const NamedTensors& tensors) {
  const auto& own = trial.bench.strategy.own;
  NamedTensors rest;
  for (const auto& [name, tensor] : tensors)
    if (!is_in(own, name) && !is_in(own, split_state_name(name).parameter)) rest.emplace_back(name, tensor);
  return rest;
}

void judge_field(const Trial& trial, Rows& rows, const std::string& name, const std::string& what, StepMember field,
                 const std::string& likely, int64_t every = 1) {
  for (size_t step = 0; step < trial.ranks[0].steps.size(); ++step) {
    if ((trial.scenario.first + static_cast<int64_t>(step) + 1) % every != 0) continue;
    for (size_t rank = 1; rank < trial.ranks.size(); ++rank) {
      const auto difference = first_mismatch(shared(trial, trial.ranks[rank].steps[step].*field),
                                             shared(trial, trial.ranks[0].steps[step].*field));
      rows.judged(name, what + " of every rank with rank 0's, bit for bit", difference.empty(),
                  difference + trial.place(static_cast<int64_t>(rank), static_cast<int64_t>(step)), likely);
    }
  }
}

// Returns the mistake of a rank whose tensors differ from rank 0's initial ones.
std::string start_mistake(const NamedTensors& found, const NamedTensors& expected, int rank) {
  if (!expected.empty() && find(found, "module." + expected[0].first))
    return "a wrapper's names, which begin with \"module.\": take the tensors of the module that it wraps";
  return rank == 0 ? "the seed was not used, or a tensor was wrongly cast or mixed with another rank's"
                   : "rank 0's state was not broadcast at construction";
}

// Checks that every rank skipped a step with a non-finite gradient. If a rank decided by its own gradient alone, the
// ranks would diverge.
void judge_skipped(const Trial& trial, int64_t step, Rows& rows) {
  for (const Evidence& evidence : trial.ranks) {
    const StepEvidence &before = evidence.steps[static_cast<size_t>(step - 1)],
                       &after = evidence.steps[static_cast<size_t>(step)];
    std::string changed = first_mismatch(after.parameters, before.parameters);
    if (changed.empty()) changed = first_mismatch(after.state, before.state);
    rows.judged("non-finite-skipped",
                "parameters and optimizer state before and after a step with a non-finite gradient, bit for bit",
                changed.empty(), changed + trial.place(evidence.rank, step),
                "the step was applied, or each rank decides by its own gradient");
  }
}

// Checks that a rank reports a non-finite loss if its expected loss is non-finite.
void judge_poisoned_losses(const Trial& trial, int64_t step, Rows& rows) {
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank) {
    const at::Tensor due = expected_loss(trial, trial.expected[static_cast<size_t>(step)], static_cast<int>(rank)),
                     &found = trial.ranks[rank].steps[static_cast<size_t>(step)].loss;
    if (!due.defined() || std::isfinite(due.item<double>())) continue;
    rows.judged("non-finite", "a loss that is not finite is reported as such",
                found.defined() && found.numel() == 1 && !std::isfinite(found.item<double>()),
                "the loss" + trial.place(static_cast<int64_t>(rank), step), "the loss is replaced by a number");
  }
}

// Checks that outputs and buffers hold NaN or infinity where the expected ones do.
void judge_poisoned_results(const Trial& trial, int64_t step, Rows& rows) {
  const ExpectedStep& expected = trial.expected[static_cast<size_t>(step)];
  for (int rank = 0; rank < static_cast<int>(trial.ranks.size()); ++rank) {
    const StepEvidence& seen = trial.ranks[static_cast<size_t>(rank)].steps[static_cast<size_t>(step)];
    const auto judge = [&](const std::string& what, const at::Tensor& due, const at::Tensor& found) {
      if (!due.defined() || !found.defined() || due.sizes() != found.sizes()) return;
      const at::Tensor hidden = due.isfinite().logical_not().logical_and(found.isfinite());
      rows.judged("non-finite", "outputs and buffers that are not finite are reported as such",
                  !hidden.any().item<bool>(), what + trial.place(rank, step), "replaced by numbers");
    };
    judge("the output", expected_output(trial, expected, rank), seen.output);
    if (trial.bench.strategy.skips_non_finite) continue;
    for (const auto& [name, due] : expected_buffers(trial, expected, rank))
      if (const at::Tensor* found = find(seen.buffers, name)) judge("buffer " + name, due, *found);
  }
}

// Checks that a NaN in a gradient appears in the updated parameter too.
void judge_poisoned(const Trial& trial, int64_t step, Rows& rows) {
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank)
    for (size_t p = 0; p < trial.names.size(); ++p) {
      const at::Tensor gradient = trial.reported(step, p, static_cast<int>(rank));
      const at::Tensor* after =
          find(trial.ranks[rank].steps[static_cast<size_t>(step)].parameters, trial.aliases[p].front());
      if (!gradient.defined() || !after || after->sizes() != gradient.sizes()) continue;
      const at::Tensor kept = gradient.isnan().logical_and(after->isfinite());
      rows.judged("non-finite", "a gradient that is not a number reaches the parameter", !kept.any().item<bool>(),
                  "parameter " + trial.names[p] + trial.place(static_cast<int64_t>(rank), step),
                  "the update hides NaN without a promise");
    }
}

}  // namespace

void judge_start(const Trial& trial, Rows& rows) {
  const std::string compared = "parameters and buffers after construction with rank 0's model, bit for bit";
  const auto dtype = trial.scenario.dtype;
  for (const auto& evidence : trial.ranks) {
    const NamedTensors expected = initial_parameters(trial.bench, evidence.rank, dtype);
    auto difference = first_mismatch(evidence.parameters, expected);
    if (difference.empty() && trial.bench.strategy.buffers != Buffers::local)
      difference = first_mismatch(evidence.buffers, initial_buffers(trial.bench, evidence.rank, dtype));
    rows.judged("initial-broadcast", compared, difference.empty(),
                difference + ", rank " + std::to_string(evidence.rank) + ", scenario " + trial.scenario.name,
                start_mistake(evidence.parameters, expected, evidence.rank));
  }
}

void judge_agreement(const Trial& trial, Rows& rows) {
  if (trial.ranks.size() < 2) return;
  if (trial.bench.strategy.gradient == Gradient::local)
    return judge_field(trial, rows, "ranks-agree-parameters", "averaged parameters", &StepEvidence::parameters,
                       "not averaged, or not on every rank", trial.bench.strategy.average_every);
  judge_field(trial, rows, "ranks-agree-gradients", "gradients", &StepEvidence::gradients,
              "not reduced on every rank, or ranks sum in different orders");
  judge_field(trial, rows, "ranks-agree-parameters", "parameters", &StepEvidence::parameters,
              "a rank updated its parameters alone, or started with other parameters");
  const auto has_state = [](const Evidence& evidence) {
    return std::any_of(evidence.steps.begin(), evidence.steps.end(),
                       [](const auto& step) { return !step.state.empty(); });
  };
  if (std::none_of(trial.ranks.begin(), trial.ranks.end(), has_state))
    return rows.skipped("ranks-agree-state", "optimizer state of every rank with rank 0's, bit for bit",
                        "no rank reports any optimizer state");
  judge_field(trial, rows, "ranks-agree-state", "optimizer state", &StepEvidence::state,
              "a rank updated its state alone, or restored another state");
}

void judge_poison(const Trial& trial, Rows& rows) {
  if (!trial.scenario.poison || trial.expected.empty()) return;
  const auto step = static_cast<int64_t>(trial.expected.size()) - 1;
  const auto& expected = trial.expected.back();
  bool any = false;
  for (size_t rank = 0; rank < trial.ranks.size(); ++rank)
    for (size_t p = 0; p < trial.names.size(); ++p) {
      const at::Tensor& due = expected.gradient_of(static_cast<int>(rank))[p];
      if (due.isfinite().all().item<bool>()) continue;
      any = true;
      const at::Tensor found = trial.reported(step, p, static_cast<int>(rank));
      const bool reached =
          found.defined() && !due.isfinite().logical_not().logical_and(found.isfinite()).any().item<bool>();
      rows.judged(
          "non-finite", "NaN or infinity in one rank's sample reaches every rank's gradient", reached,
          [&] {
            return "parameter " + trial.names[p] + ", " + first_difference(found, due) +
                   trial.place(static_cast<int64_t>(rank), step);
          },
          due.isnan().any().item<bool>()
              ? "NaN is masked before the reduction, or this rank's gradient is not reduced"
              : "infinity is masked before the reduction, or this rank's gradient is not reduced");
    }
  judge_poisoned_losses(trial, step, rows);
  judge_poisoned_results(trial, step, rows);
  if (any) (trial.bench.strategy.skips_non_finite ? judge_skipped : judge_poisoned)(trial, step, rows);
}

void judge_repeat(const std::vector<Evidence>& first, const std::vector<Evidence>& second, bool promised, Rows& rows) {
  const std::string compared = "gradients, parameters and state of two runs, bit for bit";
  if (!promised) return rows.skipped("run-to-run", compared, "the strategy does not promise reproducible runs");
  for (size_t rank = 0; rank < first.size(); ++rank)
    for (size_t step = 0; step < first[rank].steps.size(); ++step)
      for (const StepMember field : {&StepEvidence::gradients, &StepEvidence::parameters, &StepEvidence::state}) {
        const auto difference = first_mismatch(second[rank].steps[step].*field, first[rank].steps[step].*field);
        rows.judged("run-to-run", compared, difference.empty(),
                    difference + ", rank " + std::to_string(rank) + ", step " + std::to_string(step),
                    "sums in order of arrival, or has a data race");
      }
}

namespace {

// Adds +0 to the tensors, which turns -0 into +0, because the sign of a zero sum depends on the order of summation.
NamedTensors with_positive_zeros(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors) all.emplace_back(name, tensor.defined() ? tensor + 0.0 : tensor);
  return all;
}

}  // namespace

void judge_same_bits_as_baseline(const Evidence& found, const Evidence& baseline, Rows& rows) {
  const std::string compared =
      "a world of 1 with the baseline: bits of the gradients, and parameters within the rounding of their update";
  const NamedTensors* before = &baseline.parameters;
  for (size_t step = 0; step < baseline.steps.size(); ++step) {
    const auto place = ", step " + std::to_string(step);
    const auto difference = first_mismatch(with_positive_zeros(found.steps[step].gradients),
                                           with_positive_zeros(baseline.steps[step].gradients));
    rows.judged("world-1-bits", compared, difference.empty(), difference + place,
                "uses other kernels, another order, or another scale than the baseline");
    const NamedTensors& expected = baseline.steps[step].parameters;
    for (const auto& [name, due] : expected) {
      const at::Tensor* mine = find(found.steps[step].parameters, name);
      const double ratio = mine ? largest_ratio(*mine, due, update_rounding(*find(*before, name), due))
                                : std::numeric_limits<double>::infinity();
      rows.judged(
          "world-1-bits", compared, ratio <= 1,
          [&, &of = name, &to = due] { return of + ", " + first_difference(mine ? *mine : at::Tensor(), to) + place; },
          "the update is not the baseline's");
    }
    // Steps are compared up to the first with different parameters, because all later gradients differ too.
    if (!first_mismatch(found.steps[step].parameters, expected).empty()) return;
    before = &expected;
  }
}

}  // namespace dpbench
