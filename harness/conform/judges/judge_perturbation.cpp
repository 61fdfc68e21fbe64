// Checks that all ranks' gradients change as the oracle's do if one replica gets another sample.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/judges/signatures/signatures.h"

namespace dpbench {
namespace {

// Allowed relative error of the amount by which a gradient changes if one replica has another sample. It is larger than
// exact_bound, the allowed error of a whole gradient, because the change may be a small part of the gradient.
constexpr double change_bound = 1e-6;
// The error of a change is divided by at least this fraction of the norm of all changes together, and by at least the
// square of this fraction times the norm of all gradients: ranks that keep their own gradients may have no change.
constexpr double change_floor = 1e-3;

std::string why_wrongly_changed(const Trial& trial, int rank, size_t p, const at::Tensor& before) {
  if (relative_error(trial.reported(0, p, rank), before, std::numeric_limits<double>::min()) > exact_bound)
    return likely_mistake(trial, 0, rank, {p});
  return "the gradient is that of the sample with this id, not of the sample that replica " +
         std::to_string(altered(trial.scenario, trial.bench.distribution).first) +
         " was given: a sample read again by its id, a stale batch, or a replica whose gradient is not reduced";
}

}  // namespace

void judge_perturbation(const Trial& trial, Rows& rows) {
  Scenario plain = trial.scenario;
  plain.perturbed = false;
  const ExpectedStep before = make_trial(trial.bench, plain, trial.clip_norm, trial.ranks).expected.at(0);
  const ExpectedStep& after = trial.expected.at(0);
  for (int rank = 0; rank < static_cast<int>(trial.ranks.size()); ++rank) {
    const auto &due = after.gradient_of(rank), &old = before.gradient_of(rank);
    std::vector<at::Tensor> changes;
    for (size_t p = 0; p < due.size(); ++p) changes.push_back(due[p] - old[p]);
    const double floor = change_floor * std::max(norm(changes), change_floor * norm(due));
    for (size_t p = 0; p < due.size(); ++p) {
      if (!after.used[p]) continue;
      const at::Tensor found = trial.reported(0, p, rank);
      const bool shaped = found.defined() && found.sizes() == due[p].sizes();
      rows.measured(
          trial.scenario.gradient_check,
          "change of each gradient by another sample on one replica, with the float64 oracle's",
          shaped ? relative_error(found - old[p], changes[p], floor) : std::numeric_limits<double>::infinity(),
          change_bound,
          [&] {
            return "parameter " + trial.names[p] + ", " + first_difference(found, due[p]) + ", rank " +
                   std::to_string(rank) + ", scenario " + trial.scenario.name;
          },
          [&] { return shaped ? why_wrongly_changed(trial, rank, p, old[p]) : std::string(); });
    }
  }
}

}  // namespace dpbench
