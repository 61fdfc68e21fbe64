#include "harness/conform/judges/votes.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"

namespace dpbench {
namespace {

// A group of elements may vote on a mistake (see Votes) if the mistake changes it by at least this many standard
// deviations of its error. If the strategy makes the mistake, the group then votes for it with a probability of 0.98.
constexpr double least_deviations = 2;
// Largest majority with which groups of elements may vote for a mistake although the strategy does not make it, in
// standard deviations of as many coin tosses as there are groups.
constexpr double allowed_deviations = 8;
// Largest majority with which groups of elements may vote for a mistake although the strategy does not make it, as a
// share of the groups. It applies if the limit in standard deviations is smaller, and covers a slight dependence
// between the votes of many groups.
constexpr double allowed_share = 0.5;

}  // namespace

void Votes::add(const at::Tensor& found, const at::Tensor& exact, const at::Tensor& stepwise, const at::Tensor& change,
                const at::Tensor& deviation, int64_t rows) {
  const int64_t groups = std::min(rows, found.numel()), of_each = groups > 0 ? found.numel() / groups : 0;
  if (of_each == 0) return;
  const at::Tensor weighted = change / deviation.square(), all = found.to(at::kDouble);
  const auto sums = [&](const at::Tensor& factor) {
    return (factor * weighted).reshape({-1}).narrow(0, 0, groups * of_each).view({groups, of_each}).sum(1);
  };
  const at::Tensor from_exact = sums(all - exact), from_stepwise = sums(all - stepwise),
                   informed = sums(change).ge(least_deviations * least_deviations);
  const auto count = [&](const at::Tensor& which) { return which.logical_and(informed).sum().item<int64_t>(); };
  groups_ += count(at::ones_like(informed));
  in_favour_ += count(at::minimum(from_exact, from_stepwise).gt(0));
  against_ += count(at::maximum(from_exact, from_stepwise).lt(0));
}

double Votes::error() const {
  if (groups_ == 0) return 0;
  const auto groups = static_cast<double>(groups_);
  const double majority = static_cast<double>(in_favour_ - against_) / groups;
  return majority / std::max(allowed_deviations / std::sqrt(groups), allowed_share);
}

Votes votes_of(const HiddenRounding& mistake, const NamedTensors& parameters, const Trial& trial,
               const Course& expected) {
  const double most = largest_move(trial, expected, 0);
  Votes votes;
  for (const auto& [name, change] : mistake.changes) {
    const at::Tensor *found = find(parameters, name), *due = find(expected.ranks[0].parameters, name);
    if (!found || !due || found->sizes() != due->sizes()) continue;
    const at::Tensor start = trial.start(0, name), exact = due->to(at::kDouble);
    const double pass = pass_bound(trial.scenario.dtype) * std::max(largest_difference(exact, start), 1e-3 * most),
                 u = unit_roundoff(start.scalar_type());
    const at::Tensor store = exact.abs() * (u * std::sqrt(static_cast<double>(trial.scenario.steps)));
    const at::Tensor* whole = find(trial.ranks[0].parameters, name);
    votes.add(*found, exact, *find(expected.stepwise, name), change, (store.square() + pass * pass + 1e-300).sqrt(),
              whole->dim() > 1 ? whole->size(0) : whole->numel());
  }
  return votes;
}

}  // namespace dpbench
