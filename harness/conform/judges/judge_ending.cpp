// Checks that steps do not modify their input and that finish() does not change the model, except to average the
// parameters of ranks with Gradient::local.
#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"

namespace dpbench {
namespace {

std::string first_change(const NamedTensors& before, const NamedTensors& after) {
  for (const auto& [name, tensor] : before) {
    const at::Tensor* now = find(after, name);
    if (!now) return name + " is missing";
    if (!now->is_same(tensor) && !same_bits(*now, tensor)) return name + " changed, " + first_difference(*now, tensor);
  }
  return "";
}

std::string first_change(const Evidence& rank) {
  const StepEvidence& last = rank.steps.back();
  for (const auto& change : {first_change(last.parameters, rank.last_parameters),
                             first_change(last.buffers, rank.last_buffers), first_change(last.state, rank.last_state)})
    if (!change.empty()) return change + ", rank " + std::to_string(rank.rank);
  return "";
}

// Returns the first parameter whose value after finish() is not the mean over ranks; empty if there is none. A strategy
// whose ranks each use their own gradient may average the parameters in finish().
std::string first_not_mean(const Trial& trial) {
  for (const auto& [name, tensor] : trial.ranks[0].steps.back().parameters) {
    at::Tensor mean = at::zeros_like(tensor, at::kDouble);
    // The allowed rounding error is relative to the largest norm that the parameter has on any rank. The norm of the
    // mean may be too small for that, because values of different ranks may cancel.
    double largest = 0;
    for (const auto& rank : trial.ranks)
      if (const at::Tensor* mine = find(rank.steps.back().parameters, name)) {
        mean += mine->to(at::kDouble) / trial.world();
        largest = std::max(largest, norm({*mine}));
      }
    for (const auto& rank : trial.ranks) {
      const at::Tensor* now = find(rank.last_parameters, name);
      const double bound = gamma(trial.world() + 1, unit_roundoff(tensor.scalar_type()));
      if (!now || !(relative_error(*now, mean, largest) <= bound))
        return name + " is neither unchanged nor the mean over all ranks, " +
               first_difference(now ? *now : at::Tensor(), mean) + ", rank " + std::to_string(rank.rank);
    }
  }
  return "";
}

}  // namespace

void judge_rows(const Trial& trial, Rows& rows) {
  for (const auto& evidence : trial.ranks)
    for (size_t step = 0; step < evidence.steps.size(); ++step)
      rows.judged(
          "rows-untouched", "a step's samples, which may be views of the data set, before and after the step",
          evidence.steps[step].modified_input.empty(),
          evidence.steps[step].modified_input + " changed" + trial.place(evidence.rank, static_cast<int64_t>(step)),
          "the strategy modifies its input in place");
}

void judge_ending(const Trial& trial, Rows& rows) {
  std::string change;
  for (const auto& evidence : trial.ranks)
    if (change.empty() && !evidence.steps.empty()) change = first_change(evidence);
  if (!change.empty() && trial.bench.strategy.gradient == Gradient::local)
    // In a poisoned run (with a NaN or infinity in a sample) the mean over the ranks can be NaN, so it is not compared.
    change = trial.scenario.poison ? "" : first_not_mean(trial);
  rows.judged("finish",
              "parameters, buffers and optimizer state after finish() with those after the last step, bit for bit",
              change.empty(), change + ", scenario " + trial.scenario.name,
              "finish() takes another step, or mixes the ranks' values");
}

}  // namespace dpbench
