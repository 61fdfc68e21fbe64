// Checks a strategy's state after a step: buffers, optimizer updates, unused and frozen parameters.
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/judges/update_mistake.h"
#include "harness/conform/oracle/optimizer_replay.h"

namespace dpbench {
namespace {

// Allowed rounding error of running statistics, in units of roundoff. They are means over dozens of numbers, and the
// strategy may sum them in another order than the oracle.
constexpr double working_roundings = 32;

std::string buffers_mistake(const Trial& trial, int rank, size_t step, const std::string& name,
                            const at::Tensor& found) {
  const at::Tensor* before = find(trial.buffers_before(static_cast<int64_t>(step), rank), name);
  if (before && same_bits(*before, found))
    return "unchanged after a step: the model is in evaluation mode, or buffers are not written back";
  switch (meant_buffers(trial)) {
    case Buffers::unchanged:
      return "changed, but the strategy declares them unchanged";
    case Buffers::local:
      return "this rank's buffers were overwritten or mixed with another's";
    case Buffers::synchronised:
      return "statistics do not cover the samples of all ranks";
    case Buffers::first_replica:
      return "statistics not written back, or of another replica's samples";
    default:
      break;
  }
  return rank == 0 ? "statistics not written back, or of other samples"
                   : "rank 0's buffers were not broadcast before the forward pass";
}

std::string buffers_meaning(Buffers buffers) {
  switch (buffers) {
    case Buffers::unchanged:
      return "unchanged since the start";
    case Buffers::rank0:
      return "rank 0's before the step, updated with this rank's samples";
    case Buffers::local:
      return "this rank's own";
    case Buffers::first_replica:
      return "updated with the first replica's samples";
    default:
      return "updated with the whole batch";
  }
}

struct Moved {
  at::Tensor expected, slack;
  OptimizerReplay start = {};  // state of the recomputed optimizer before the step
};

// Compares parameter updates with a recomputation of the optimizer: rank 0's updates only, or those of every rank if
// the ranks have their own gradients.
class OptimizerJudge {
 public:
  OptimizerJudge(const Trial& trial, Rows& rows)
      : trial_(trial),
        rows_(rows),
        spec_(trial.workload().optimizer()),
        local_(trial.bench.strategy.gradient == Gradient::local),
        replays_(local_ || !trial.bench.strategy.own.empty() ? trial.ranks.size() : 1,
                 std::vector<OptimizerReplay>(trial.names.size())) {}

  void step(int64_t step) {
    const bool averaged = local_ && (trial_.scenario.first + step + 1) % trial_.bench.strategy.average_every == 0;
    for (size_t p = 0; p < trial_.names.size(); ++p) {
      std::vector<Moved> moves;
      for (size_t r = 0; r < replays_.size(); ++r) moves.push_back(moved(static_cast<int>(r), p, step));
      const at::Tensor* before = named(trial_.parameters_before(step), p);
      const auto own = moves;
      if (averaged && before) moves.assign(replays_.size(), mean(moves, unit_roundoff(before->scalar_type())));
      for (size_t r = 0; r < replays_.size(); ++r)
        judge(static_cast<int>(r), p, step, moves[r], averaged ? own : std::vector<Moved>{});
    }
  }

 private:
  static Moved mean(const std::vector<Moved>& moves, double u) {
    const auto count = static_cast<double>(moves.size());
    Moved sum;
    at::Tensor sizes;
    for (const auto& [expected, slack, start] : moves) {
      if (!expected.defined()) return {};
      sum.expected = sum.expected.defined() ? sum.expected + expected / count : expected / count;
      sizes = sizes.defined() ? sizes + expected.abs() / count : expected.abs() / count;
      sum.slack = sum.slack.defined() ? sum.slack + slack / count : slack / count;
    }
    return {sum.expected, sum.slack + sizes * gamma(count + 1, u)};
  }

  const at::Tensor* named(const NamedTensors& tensors, size_t p) const {
    for (const auto& name : trial_.aliases[p])
      if (const at::Tensor* tensor = find(tensors, name)) return tensor;
    return nullptr;
  }

  Moved moved(int rank, size_t p, int64_t step) {
    const at::Tensor* before = named(trial_.parameters_before(step, rank), p);
    if (!before) return {};
    const double u = unit_roundoff(before->scalar_type());
    const at::Tensor gradient = trial_.reported(step, p, rank), old = before->to(at::kDouble);
    if (!gradient.defined()) return {old, at::zeros_like(old)};
    OptimizerReplay& replay = replays_[static_cast<size_t>(rank)][p];
    const OptimizerReplay start = replay;
    const auto [change, rounding] =
        replay.step(spec_, update_rates(spec_, trial_.scenario.first + step, old.dim()), *before, gradient, u);
    const at::Tensor expected = old + change;
    return {expected, rounding + expected.abs() * (4 * u) + smallest_subnormal(before->scalar_type()), start};
  }

  // averaged: the expected update of every rank before the ranks average their parameters; empty in steps without
  // averaging.
  void judge(int rank, size_t p, int64_t step, const Moved& move, const std::vector<Moved>& averaged) {
    const at::Tensor* before = named(trial_.parameters_before(step, rank), p);
    const at::Tensor* found =
        named(trial_.ranks[static_cast<size_t>(rank)].steps[static_cast<size_t>(step)].parameters, p);
    if (!before || !found || !move.expected.defined())
      return;  // a missing parameter is reported by the functions judge_agreement and judge_start
    const at::Tensor& after = *found;
    const at::Tensor& expected = move.expected;
    rows_.measured(
        "optimizer-replay",
        "parameters with the optimizer replayed in float64 on the reported gradients, in units of rounding",
        largest_ratio(after, expected, move.slack), 1,
        [&] {
          return "parameter " + trial_.names[p] + ", " + first_difference(after, expected) + trial_.place(rank, step);
        },
        [&] {
          return averaged.empty() ? update_mistake(trial_, {rank, p, step, move.start, *before, after}, expected)
                                  : likely_of_average(averaged, after);
        });
  }

  static std::string likely_of_average(const std::vector<Moved>& moves, const at::Tensor& after) {
    for (size_t left_out = 0; left_out < moves.size() && moves.size() > 1; ++left_out) {
      at::Tensor sum;
      for (size_t r = 0; r < moves.size(); ++r)
        if (r != left_out) sum = sum.defined() ? sum + moves[r].expected : moves[r].expected;
      if (relative_error(after, sum / static_cast<double>(moves.size() - 1), 0) < 1e-6)
        return "rank " + std::to_string(left_out) + " was left out of the average of the parameters";
    }
    return "not the average of all ranks' parameters";
  }

  const Trial& trial_;
  Rows& rows_;
  OptimizerSpec spec_;
  bool local_;
  std::vector<std::vector<OptimizerReplay>> replays_;  // recomputed optimizers, by rank, then by parameter
};

}  // namespace

void judge_buffers(const Trial& trial, Rows& rows) {
  if (trial.scenario.poison || trial.scenario.smooth) return;
  const bool exact = trial.scenario.dtype == at::kDouble;
  // Synchronised BatchNorm statistics are compared in float64 only: in narrower dtypes their rounding error grows with
  // the mean and has no simple bound.
  if (!exact && trial.couples_samples()) return;
  if (!exact && !trial.bench.devices.front().is_cpu())
    return rows.skipped("buffers-replay", "buffers after a step in the working dtype",
                        "GPU kernels round differently from the CPU kernels of the replay");
  const std::string check = exact ? "buffers" : "buffers-replay";
  const std::string compared = (exact ? "buffers after a step: " : "buffers after a step in the working dtype: ") +
                               buffers_meaning(meant_buffers(trial));
  const double bound = exact ? exact_bound : working_roundings * unit_roundoff(trial.scenario.dtype);
  for (auto step = static_cast<size_t>(trial.scenario.judged_from); step < trial.expected.size(); ++step)
    for (const auto& evidence : trial.ranks)
      for (const auto& [name, expected] : expected_buffers(trial, trial.expected[step], evidence.rank)) {
        const at::Tensor* found = find(evidence.steps[step].buffers, name);
        const auto where = [&, &buffer = name, &due = expected] {
          return "buffer " + buffer + ", " + first_difference(found ? *found : at::Tensor(), due) +
                 trial.place(evidence.rank, static_cast<int64_t>(step));
        };
        const bool typed = found && found->scalar_type() == expected.scalar_type();
        if (!typed)
          rows.judged(check, compared, false, where, "missing, or cast to another dtype");
        else
          rows.measured(check, compared, relative_error(*found, expected, 0), bound, where,
                        [&, &buffer = name] { return buffers_mistake(trial, evidence.rank, step, buffer, *found); });
      }
}

void judge_optimizer(const Trial& trial, Rows& rows) {
  if (trial.scenario.poison || trial.expected.empty()) return;
  OptimizerJudge judge(trial, rows);
  for (int64_t step = 0; step < static_cast<int64_t>(trial.expected.size()); ++step) judge.step(step);
}

void judge_unused(const Trial& trial, Rows& rows) {
  if (trial.scenario.poison) return;
  const auto model = first_model(trial.bench);
  const auto first = static_cast<size_t>(trial.scenario.judged_from);
  // True for each parameter that was used in an earlier step; assumed true if earlier steps are not judged.
  std::vector<bool> ever(trial.names.size(), first > 0);
  for (size_t step = first; step < trial.expected.size(); ++step)
    for (const auto& evidence : trial.ranks) {
      const auto where = trial.place(evidence.rank, static_cast<int64_t>(step));
      for (size_t p = 0; p < trial.names.size(); ++p) {
        ever[p] = ever[p] || trial.expected[step].used[p];
        if (trial.expected[step].used[p]) continue;
        const at::Tensor found = trial.reported(static_cast<int64_t>(step), p, evidence.rank);
        const bool nothing = !found.defined() || (ever[p] && !found.any().item<bool>());
        rows.judged("unused-parameters", "no gradient for a parameter that no rank used", nothing,
                    "parameter " + trial.names[p] + " has a gradient" + where, "a stale gradient, or zeros");
      }
      for (const auto& item : model->named_parameters()) {
        if (item.value().requires_grad()) continue;
        const at::Tensor* before = find(evidence.parameters, item.key());
        const at::Tensor* after = find(evidence.steps[step].parameters, item.key());
        rows.judged("frozen-parameters", "a parameter that requires no gradient does not change",
                    before && after && same_bits(*before, *after), "parameter " + item.key() + where,
                    "the optimizer also updates frozen parameters");
      }
    }
}

}  // namespace dpbench
