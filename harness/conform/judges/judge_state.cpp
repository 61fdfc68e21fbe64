// Checks a strategy's state after a step: buffers, optimizer updates, unused and frozen parameters.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/conform/evidence/error_pattern.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/oracle/optimizer_replay.h"

namespace dpbench {
namespace {

// Allowed rounding error of running statistics, in units of roundoff. They are means over dozens of numbers, and the
// order of summation may differ from the reference's.
constexpr double working_roundings = 32;

std::string at_place(const Trial& trial, int rank, int64_t step) {
  return ", rank " + std::to_string(rank) + ", step " + std::to_string(step) + ", scenario " + trial.scenario.name;
}

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
  OptimizerReplay start = {};  // the recomputed optimizer before the step
};

// Compares parameter updates with a recomputation of the optimizer. It uses rank 0's optimizer only, or every rank's if
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
    const bool averaged = local_ && (step + 1) % trial_.bench.strategy.average_every == 0;
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
    const auto [change, rounding] = replay.step(spec_, rates(step, old), old, gradient, u);
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
      return;  // missing parameters are reported by judge_agreement and judge_start
    const at::Tensor& after = *found;
    const at::Tensor& expected = move.expected;
    rows_.measured(
        "optimizer-replay",
        "parameters with the optimizer replayed in float64 on the reported gradients, in units of rounding",
        largest_ratio(after, expected, move.slack), 1,
        [&] {
          return "parameter " + trial_.names[p] + ", " + first_difference(after, expected) +
                 at_place(trial_, rank, step);
        },
        [&] {
          return averaged.empty() ? likely({rank, p, step, move.start, *before, after}, expected)
                                  : likely_of_average(averaged, after);
        });
  }

  UpdateRates rates(int64_t step, const at::Tensor& parameter) const {
    return update_rates(spec_, trial_.scenario.first + step, parameter.dim());
  }

  // One rank's update of a parameter in a step.
  struct Update {
    int rank;
    size_t p;
    int64_t step;
    const OptimizerReplay& start;
    const at::Tensor &before, &after;
  };

  // True if the optimizer, stepped with these gradients one after the other, gives the update.
  bool comes_from(const Update& update, OptimizerReplay replay, const std::vector<at::Tensor>& gradients) const {
    const at::Tensor before = update.before.to(at::kDouble);
    at::Tensor now = before;
    for (const at::Tensor& gradient : gradients) {
      if (!gradient.defined() || gradient.sizes() != update.before.sizes()) return false;
      now = now + replay.step(spec_, rates(update.step, now), now, gradient, 0).first;
    }
    return is_move(update, now - before);
  }

  bool is_move(const Update& update, const at::Tensor& move) const {
    return relative_error(update.after.to(at::kDouble) - update.before.to(at::kDouble), move, 1e-300) < 1e-3;
  }

  // Returns the change that the optimizer makes with these rates and this gradient.
  at::Tensor moved_at(const Update& update, const UpdateRates& rates, const at::Tensor& gradient) const {
    OptimizerReplay replay = update.start;
    return replay.step(spec_, rates, update.before.to(at::kDouble), gradient, 0).first;
  }

  // Returns the mistake in the learning rate's schedule that gives the update; an empty string if none does.
  std::string by_schedule(const Update& update) const {
    const UpdateRates due = rates(update.step, update.before);
    const at::Tensor gradient = trial_.reported(update.step, update.p, update.rank);
    for (const int64_t apart : {-1, 1}) {
      const UpdateRates other =
          update_rates(spec_, std::max<int64_t>(trial_.scenario.first + update.step + apart, 0), update.before.dim());
      if (other.learning != due.learning && is_move(update, moved_at(update, other, gradient)))
        return std::string("updated with the learning rate of the step ") +
               (apart < 0 ? "before: the schedule is one step late" : "after it: the schedule is one step early");
    }
    return "";
  }

  // Returns the mistake in the weight decay that gives the update; an empty string if none does.
  std::string by_decay(const Update& update) const {
    if (spec_.weight_decay == 0) return "";
    const UpdateRates due = rates(update.step, update.before);
    const at::Tensor gradient = trial_.reported(update.step, update.p, update.rank).to(at::kDouble),
                     before = update.before.to(at::kDouble), way = update.after.to(at::kDouble) - before,
                     right = moved_at(update, due, gradient);
    if (is_move(update, moved_at(update, {due.learning, 0}, gradient + spec_.weight_decay * before)))
      return due.decay == 0
                 ? "weight decay was added to the gradient of a parameter that has none"
                 : "the parameter itself has no weight decay: it was added to the gradient (L2), or left out";
    const at::Tensor other = moved_at(update, {due.learning, due.decay == 0 ? spec_.weight_decay : 0}, gradient);
    const double tolerance = 1e-3 * largest_element(right);
    const at::Tensor wrong = (way - right).abs().gt(tolerance);
    if ((way - other).abs().gt(tolerance).logical_and(wrong).any().item<bool>()) return "";
    return std::to_string(wrong.sum().item<int64_t>()) + " of " + std::to_string(wrong.numel()) + " elements have " +
           (due.decay == 0 ? "weight decay, although parameters of fewer than two dimensions have none"
                           : "no weight decay");
  }

  // Returns the gradient of each micro-batch, with the shares of the declared gradient.
  std::vector<at::Tensor> micro_gradients(const Update& update) const {
    const ExpectedStep& expected = trial_.expected[static_cast<size_t>(update.step)];
    std::vector<at::Tensor> gradients;
    for (int64_t micro = 0; micro < trial_.scenario.accumulate; ++micro) {
      std::vector<double> shares = expected.shares;
      for (size_t i = 0; i < shares.size(); ++i)
        if (expected.shards[i].micro != micro) shares[i] = 0;
      gradients.push_back(combine(expected.shards, shares)[update.p]);
    }
    return gradients;
  }

  // True if each micro-batch entered the momentum by itself, so that those before the last had their share reduced.
  bool by_micro_momentum(const Update& update) const {
    if (spec_.momentum == 0 || trial_.scenario.accumulate == 1) return false;
    OptimizerReplay replay = update.start;
    at::Tensor change;
    for (const at::Tensor& gradient : micro_gradients(update))
      change = replay.step(spec_, rates(update.step, update.before), update.before, gradient, 0).first;
    return is_move(update, change);
  }

  // Returns the gradient of this rank's own samples; undefined for a single process.
  at::Tensor own_gradient(const Update& update) const {
    at::Tensor sum;
    if (trial_.bench.layout.parallelism != Parallelism::ranks) return sum;
    for (const Shard& shard : trial_.expected[static_cast<size_t>(update.step)].shards)
      if (const at::Tensor part = shard.gradient[update.p].to(at::kDouble); shard.replica == update.rank)
        sum = sum.defined() ? sum + part : part;
    return sum.defined() ? sum / static_cast<double>(trial_.scenario.accumulate) : sum;
  }

  // Returns the mistake in the choice of gradients or state that gives the update; an empty string if none does.
  std::string by_gradients(const Update& update) const {
    const at::Tensor gradient = trial_.reported(update.step, update.p, update.rank);
    if (comes_from(update, update.start, {gradient, gradient})) return "updated twice with the reported gradient";
    if (comes_from(update, update.start, {own_gradient(update)}))
      return "updated with the gradient of this rank's samples, not with the reported one";
    if (update.step > 0 && comes_from(update, update.start, {trial_.reported(update.step - 1, update.p, update.rank)}))
      return "updated with the gradient of the step before";
    if (update.start.steps > 0 && comes_from(update, {}, {gradient}))
      return "updated with a fresh optimizer state: the moments of earlier steps are lost";
    if (by_micro_momentum(update)) return "the momentum was applied in every micro-batch, not once a step";
    return "";
  }

  std::string likely(const Update& update, const at::Tensor& expected) const {
    const at::Tensor gradient = trial_.reported(update.step, update.p, update.rank);
    const at::Tensor &before = update.before, &after = update.after;
    if (!gradient.defined()) return "a parameter without a gradient was updated";
    if (same_bits(before, after)) return "not updated: the optimizer does not see this parameter";
    const at::Tensor way = after.to(at::kDouble) - before.to(at::kDouble), due = expected - before.to(at::kDouble);
    const at::Tensor still = way.eq(0).logical_and(due.ne(0)), moved = still.logical_not();
    if (still.any().item<bool>() && relative_error(way.masked_select(moved), due.masked_select(moved), 0) < 1e-3)
      return std::to_string(still.sum().item<int64_t>()) + " of " + std::to_string(due.numel()) +
             " elements were not updated: a piece was left out";
    // Weight decay does not depend on the gradient, so it is left out of the ratio.
    const UpdateRates rates = this->rates(update.step, before);
    const at::Tensor decay = before.to(at::kDouble) * (rates.learning * rates.decay), by_gradient = due + decay;
    const double size = by_gradient.square().sum().item<double>(),
                 ratio = size > 0 ? ((way + decay) * by_gradient).sum().item<double>() / size : 0;
    const bool scaled = size > 0 && relative_error(way + decay, by_gradient * ratio, 0) < 1e-3;
    const std::string far =
        "moved " + short_number(std::round(ratio * 1e4) / 1e4) + " times as far as the reported gradient implies: ";
    if (scaled && ratio < 0) return far + "wrong direction";
    if (scaled && std::abs(ratio - 2) < 1e-3) return far + "updated twice";
    if (auto text = by_schedule(update); !text.empty()) return text;
    if (scaled && std::abs(ratio - 1) > 1e-3) return far + "another gradient or learning rate was used";
    if (auto text = by_gradients(update); !text.empty()) return text;
    if (auto text = by_decay(update); !text.empty()) return text;
    if (auto text = error_pattern(way, due, 1e-3); !text.empty()) return text;
    return "updated with another gradient than the reported one, other settings or another state";
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
  if (!exact && trial.bench.strategy.buffers == Buffers::synchronised) return;
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
                 at_place(trial, evidence.rank, static_cast<int64_t>(step));
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
      const auto where = at_place(trial, evidence.rank, static_cast<int64_t>(step));
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
