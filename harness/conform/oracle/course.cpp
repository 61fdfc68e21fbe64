#include "harness/conform/oracle/course.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/evidence/widened.h"
#include "harness/conform/oracle/expectation.h"
#include "harness/conform/oracle/optimizer_replay.h"

namespace dpbench {
namespace {

class Walk {
 public:
  Walk(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
       const std::vector<Evidence>& ranks, bool exact)
      : trial_{bench, scenario, clip_norm, {}, {}, {}, {}},
        expectation_(trial_, exact),
        spec_(bench.workload.optimizer()),
        exact_(exact),
        own_steps_(bench.strategy.gradient == Gradient::local || !bench.strategy.own.empty()) {
    begin(ranks);
    trial_.names = expectation_.oracle().names();
    trial_.aliases = aliases_of(*first_model(bench), trial_.names);
    replays_.resize(own_steps_ ? trial_.ranks.size() : 1);
  }

  Course run() {
    Course course;
    if (spec_.own) {
      course.unknown = "the workload brings its own optimizer, of which optimizer-replay judges each step";
      return course;
    }
    for (size_t r = 0; r < replays_.size(); ++r)
      if (course.unknown = restore(r); !course.unknown.empty()) return course;
    course.ranks.resize(trial_.ranks.size());
    for (int64_t step = 0; step < trial_.scenario.steps; ++step) {
      ExpectedStep expected = expectation_.at_step(step);
      if (!exact_) communicate(expected);
      for (size_t r = 0; r < trial_.ranks.size(); ++r) {
        course.ranks[r].losses.push_back(expected_loss(trial_, expected, static_cast<int>(r)));
        if (step + 1 == trial_.scenario.steps)
          course.ranks[r].output = expected_output(trial_, expected, static_cast<int>(r));
      }
      advance(step, expected);
    }
    for (size_t r = 0; r < trial_.ranks.size(); ++r) {
      StepEvidence& last = trial_.ranks[r].steps.back();
      course.ranks[r].state = state_of(r);
      course.ranks[r].parameters = std::move(last.parameters);
      course.ranks[r].buffers = std::move(last.buffers);
    }
    return course;
  }

 private:
  void begin(const std::vector<Evidence>& ranks) {
    const at::ScalarType dtype = expectation_.oracle().dtype();
    for (const Evidence& given : ranks) {
      Evidence& start = trial_.ranks.emplace_back();
      start.rank = given.rank;
      for (const auto& [name, tensor] : given.parameters) start.parameters.emplace_back(name, widened(tensor, dtype));
      for (const auto& [name, tensor] : given.buffers) start.buffers.emplace_back(name, widened(tensor, dtype));
      start.state = given.state;
      for (const StepEvidence& step : given.steps) start.steps.push_back({.ids = step.ids});
    }
  }

  const at::Tensor* stored(size_t rank, size_t p, Slot slot) const {
    for (const auto& alias : trial_.aliases[p])
      if (const at::Tensor* found = find(trial_.ranks[rank].state, state_name(alias, slot))) return found;
    return nullptr;
  }

  // Restores a rank's optimizer state. Returns an error message if the state lacks a tensor or has wrong sizes; empty
  // on success.
  std::string restore(size_t rank) {
    auto& replays = replays_[rank];
    replays.assign(trial_.names.size(), {});
    if (trial_.scenario.first == 0) return "";
    for (size_t p = 0; p < trial_.names.size(); ++p)
      for (const Slot slot : state_slots(spec_)) {
        const at::Tensor* found = stored(rank, p, slot);
        const at::Tensor parameter = trial_.scenario.sample.of(*find(trial_.ranks[rank].parameters, trial_.names[p]));
        if (!found)
          return "state() has no \"" + state_name(trial_.names[p], slot) + "\", so no later step can be computed";
        if (slot == Slot::step ? found->numel() != 1 : found->sizes() != parameter.sizes())
          return "the state of \"" + trial_.names[p] + "\" has other sizes than the parameter";
        if (slot == Slot::step)
          replays[p].steps = std::llround(found->item<double>());
        else
          (slot == Slot::variance ? replays[p].variance : replays[p].momentum) = found->to(at::kDouble);
      }
    return "";
  }

  // Rounds the gradients to the dtype in which they are communicated.
  void communicate(ExpectedStep& expected) const {
    const auto type = trial_.bench.strategy.reduced_in;
    if (!type) return;
    for (Shard& shard : expected.shards)
      for (at::Tensor& gradient : shard.gradient) gradient = gradient.to(*type).to(gradient.scalar_type());
    expected.gradient = combine(expected.shards, expected.shares);
  }

  // True if any rank computed a gradient for parameter `p`; for a parameter that is not reduced, if rank `rank` did.
  bool used(const ExpectedStep& expected, size_t rank, size_t p) const {
    if (!expected.unreduced[p]) return expected.used[p];
    return std::any_of(expected.shards.begin(), expected.shards.end(),
                       [&](const Shard& shard) { return shard.replica == static_cast<int>(rank) && shard.used[p]; });
  }

  double clip_factor(const std::vector<at::Tensor>& gradient) const {
    if (!trial_.clip_norm) return 1;
    return std::min(1.0, *trial_.clip_norm / (norm(gradient) + 1e-6));
  }

  // Returns a rank's parameters after a step. For a large model, only the elements selected by Scenario::sample.
  NamedTensors stepped(int64_t step, size_t rank, const ExpectedStep& expected) {
    NamedTensors parameters = trial_.parameters_before(step, static_cast<int>(rank));
    for (auto& [name, tensor] : parameters) tensor = trial_.scenario.sample.of(tensor);
    const auto& gradient = expected.gradient_of(static_cast<int>(rank));
    const double factor = clip_factor(gradient);
    for (size_t p = 0; p < trial_.names.size(); ++p) {
      if (!used(expected, rank, p)) continue;
      const at::Tensor before = find(parameters, trial_.names[p])->to(at::kDouble);
      // The selected elements are a flat tensor, so the number of dimensions comes from the whole parameter.
      const int64_t dimensions = find(trial_.ranks[rank].parameters, trial_.names[p])->dim();
      const UpdateRates rates = update_rates(spec_, trial_.scenario.first + step, dimensions);
      const at::Tensor change = replays_[rank][p].step(spec_, rates, before, gradient[p] * factor, 0).first;
      for (auto& [name, tensor] : parameters)
        if (is_in(trial_.aliases[p], name)) tensor = (tensor.to(at::kDouble) + change).to(tensor.scalar_type());
    }
    return parameters;
  }

  void advance(int64_t step, const ExpectedStep& expected) {
    for (size_t r = 0; r < trial_.ranks.size(); ++r) {
      StepEvidence& after = trial_.ranks[r].steps[static_cast<size_t>(step)];
      after.parameters = r < replays_.size() ? stepped(step, r, expected)
                                             : trial_.ranks[0].steps[static_cast<size_t>(step)].parameters;
      after.buffers = expected_buffers(trial_, expected, static_cast<int>(r));
    }
    const StrategyInfo& strategy = trial_.bench.strategy;
    if (strategy.gradient == Gradient::local && (trial_.scenario.first + step + 1) % strategy.average_every == 0)
      average(step);
    // The tensors of the previous step are freed, because the next step starts from those of this step.
    if (step > 0)
      for (Evidence& rank : trial_.ranks) rank.steps[static_cast<size_t>(step - 1)] = {};
  }

  void average(int64_t step) {
    const auto count = static_cast<double>(trial_.ranks.size());
    for (size_t i = 0; i < trial_.ranks[0].parameters.size(); ++i) {
      at::Tensor sum;
      for (const Evidence& rank : trial_.ranks) {
        const at::Tensor part = rank.steps[static_cast<size_t>(step)].parameters[i].second.to(at::kDouble) / count;
        sum = sum.defined() ? sum + part : part;
      }
      for (Evidence& rank : trial_.ranks) {
        at::Tensor& mine = rank.steps[static_cast<size_t>(step)].parameters[i].second;
        if (mine.is_floating_point()) mine = sum.to(mine.scalar_type());
      }
    }
  }

  NamedTensors state_of(size_t rank) const {
    NamedTensors state;
    const auto& replays = replays_[rank < replays_.size() ? rank : 0];
    const NamedTensors& parameters = trial_.ranks[rank].steps.back().parameters;
    for (size_t p = 0; p < trial_.names.size(); ++p)
      for (const Slot slot : state_slots(spec_)) {
        const at::Tensor& tensor = slot == Slot::variance ? replays[p].variance : replays[p].momentum;
        state.emplace_back(state_name(trial_.names[p], slot),
                           slot == Slot::step ? at::scalar_tensor(replays[p].steps, at::kDouble)
                           : tensor.defined() ? tensor
                                              : at::zeros_like(*find(parameters, trial_.names[p]), at::kDouble));
      }
    return state;
  }

  Trial trial_;
  Expectation expectation_;
  OptimizerSpec spec_;
  bool exact_;
  bool own_steps_;  // true if the optimizers of different ranks get different gradients
  // Replayed optimizers, indexed by rank (only rank 0 if all ranks get the same gradients), then by parameter.
  std::vector<std::vector<OptimizerReplay>> replays_;
};

}  // namespace

Course course_of(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 const std::vector<Evidence>& ranks, bool exact) {
  return Walk(bench, scenario, clip_norm, ranks, exact).run();
}

}  // namespace dpbench
