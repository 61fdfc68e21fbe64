#include "harness/conform/oracle/course.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/evidence/widened.h"
#include "harness/conform/oracle/expectation.h"
#include "harness/conform/oracle/optimizer_replay.h"
#include "workloads/base/hash.h"

namespace dpbench {
namespace {

at::Tensor rounded(const at::Tensor& tensor, at::ScalarType type) { return tensor.to(type).to(tensor.scalar_type()); }

// Returns the combined gradient after rounding each forward pass's gradient to `type`, the dtype of communication.
std::vector<at::Tensor> communicated(const ExpectedStep& expected, at::ScalarType type) {
  std::vector<Shard> shards = expected.shards;
  for (Shard& shard : shards)
    for (at::Tensor& gradient : shard.gradient) gradient = rounded(gradient, type);
  return combine(shards, expected.shares);
}

// True if any rank computed a gradient for parameter `p`; for a parameter that is not reduced, if rank `rank` did.
bool used(const ExpectedStep& expected, size_t rank, size_t p) {
  if (!expected.unreduced[p]) return expected.used[p];
  return std::any_of(expected.shards.begin(), expected.shards.end(),
                     [&](const Shard& shard) { return shard.replica == static_cast<int>(rank) && shard.used[p]; });
}

// Moves each parameter by up to a unit in the last place, in directions that depend on the seed.
NamedTensors jittered(NamedTensors parameters, uint64_t jitter) {
  for (auto& [name, tensor] : parameters) {
    if (!tensor.is_floating_point()) continue;
    const auto seed = jitter + fnv1a(name);
    const at::Tensor way = at::randint(-1, 2, tensor.sizes(), at::detail::createCPUGenerator(seed), at::kFloat);
    tensor = at::nextafter(tensor, tensor + way.to(tensor.options()));
  }
  return parameters;
}

// Computes rank 0's parameters in a course if they are rounded to their own dtype after every step, and how each
// mistake that rounds a tensor to bfloat16 changes them. Both stay empty unless begin() is called.
class HiddenRoundings {
 public:
  // parameters: rank 0's, in their own dtype.
  void begin(const Trial& trial, const NamedTensors& parameters) {
    mistakes_ = {{"the gradients", {}}, {"each rank's gradients", {}}, {"the updates", {}}};
    for (const auto& name : trial.names) {
      stepwise_.emplace_back(name, trial.scenario.sample.of(*find(parameters, name)));
      for (HiddenRounding& one : mistakes_)
        one.changes.emplace_back(name, at::zeros_like(stepwise_.back().second, at::kDouble));
    }
  }

  bool begun() const { return !mistakes_.empty(); }

  // Adds the changes that each mistake (a rounding to bfloat16) makes to parameter `p` in a step. communicated: the
  // gradient if every rank rounds its own gradient before communication.
  void add(size_t p, const at::Tensor& gradient, const at::Tensor& communicated, double rate,
           const at::Tensor& change) {
    at::Tensor& stepwise = stepwise_[p].second;
    stepwise = (stepwise.to(at::kDouble) + change).to(stepwise.scalar_type());
    mistakes_[0].changes[p].second -= rate * (rounded(gradient, at::kBFloat16) - gradient);
    mistakes_[1].changes[p].second -= rate * (communicated - gradient);
    mistakes_[2].changes[p].second += rounded(change, at::kBFloat16) - change;
  }

  void move_to(Course& course) {
    course.stepwise = std::move(stepwise_);
    course.hidden_roundings = std::move(mistakes_);
  }

 private:
  NamedTensors stepwise_;
  std::vector<HiddenRounding> mistakes_;
};

// The optimizers of a course, which begin with the state that the strategy reported.
class Optimizers {
 public:
  // ranks: 1 if all ranks get the same gradients, otherwise the number of ranks.
  Optimizers(const Trial& trial, const OptimizerSpec& spec, size_t ranks)
      : trial_(trial), spec_(spec), replays_(ranks) {}

  size_t ranks() const { return replays_.size(); }
  OptimizerReplay& of(size_t rank, size_t p) { return replays_[rank][p]; }

  // Restores a rank's optimizer state. Returns an error message if the state lacks a tensor or has wrong sizes; empty
  // on success.
  std::string restore(size_t rank) {
    auto& replays = replays_[rank];
    replays.assign(trial_.names.size(), {});
    if (trial_.scenario.first == 0) return "";
    for (size_t p = 0; p < trial_.names.size(); ++p)
      for (const Slot slot : state_slots(spec_)) {
        const at::Tensor* found = stored(rank, p, slot);
        const at::Tensor parameter = trial_.start(rank, trial_.names[p]);
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

  // Returns a rank's state tensors after the course. parameters: the rank's parameters.
  NamedTensors state(size_t rank, const NamedTensors& parameters) const {
    NamedTensors state;
    const auto& replays = replays_[rank < replays_.size() ? rank : 0];
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

 private:
  const at::Tensor* stored(size_t rank, size_t p, Slot slot) const {
    for (const auto& alias : trial_.aliases[p])
      if (const at::Tensor* found = find(trial_.ranks[rank].state, state_name(alias, slot))) return found;
    return nullptr;
  }

  const Trial& trial_;
  const OptimizerSpec& spec_;
  // optimizer states, by rank, then by parameter
  std::vector<std::vector<OptimizerReplay>> replays_;
};

// Computes a course step by step.
class Walk {
 public:
  Walk(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
       const std::vector<Evidence>& ranks, bool exact, uint64_t jitter)
      : trial_{bench, scenario, clip_norm, {}, {}, {}, {}},
        expectation_(trial_, exact),
        spec_(bench.workload.optimizer()),
        exact_(exact),
        jitter_(jitter),
        own_steps_(bench.strategy.gradient == Gradient::local || !bench.strategy.own.empty()),
        optimizers_(trial_, spec_, own_steps_ ? ranks.size() : 1) {
    begin(ranks);
    trial_.names = expectation_.oracle().names();
    trial_.aliases = aliases_of(*first_model(bench), trial_.names);
    missing_ = missing_parameter();
    if (exact && !own_steps_ && scenario.dtype == at::kFloat && spec_.kind == OptimizerSpec::Kind::sgd &&
        !bench.strategy.reduced_in && missing_.empty())
      hidden_roundings_.begin(trial_, ranks[0].parameters);
  }

  Course run() {
    Course course;
    if (spec_.own) {
      course.unknown = "the workload brings its own optimizer, of which optimizer-replay judges each step";
      return course;
    }
    if (!missing_.empty()) {
      course.unknown = "parameters() has no \"" + missing_ + "\", so no later step can be computed";
      course.unreported = true;
      return course;
    }
    for (size_t r = 0; r < optimizers_.ranks(); ++r)
      if (course.unknown = optimizers_.restore(r); !course.unknown.empty()) {
        course.unreported = true;
        return course;
      }
    course.ranks.resize(trial_.ranks.size());
    for (int64_t step = 0; step < trial_.scenario.steps; ++step) {
      ExpectedStep expected = pass(step);
      if (const auto type = trial_.bench.strategy.reduced_in; type && !exact_)
        expected.gradient = communicated(expected, *type);
      for (size_t r = 0; r < trial_.ranks.size(); ++r) {
        course.ranks[r].losses.push_back(expected_loss(trial_, expected, static_cast<int>(r)));
        if (step + 1 == trial_.scenario.steps)
          course.ranks[r].output = expected_output(trial_, expected, static_cast<int>(r));
      }
      advance(step, expected);
    }
    for (size_t r = 0; r < trial_.ranks.size(); ++r) {
      StepEvidence& last = trial_.ranks[r].steps.back();
      course.ranks[r].state = optimizers_.state(r, last.parameters);
      course.ranks[r].parameters = std::move(last.parameters);
      course.ranks[r].buffers = std::move(last.buffers);
    }
    hidden_roundings_.move_to(course);
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

  // Looks for a trainable parameter that a rank has not reported, among the ranks whose optimizer steps are computed
  // here. Returns its name, or an empty string if the ranks reported all.
  std::string missing_parameter() const {
    for (size_t r = 0; r < optimizers_.ranks(); ++r)
      for (const auto& name : trial_.names)
        if (!find(trial_.ranks[r].parameters, name)) return name;
    return "";
  }

  // Computes the forward and backward passes of a step. With jitter, they use slightly changed parameters.
  ExpectedStep pass(int64_t step) {
    if (jitter_ == 0) return expectation_.at_step(step);
    std::vector<NamedTensors> kept;
    for (Evidence& rank : trial_.ranks)
      kept.push_back(
          std::exchange(before(rank, step), jittered(before(rank, step), jitter_ + static_cast<uint64_t>(step))));
    ExpectedStep expected = expectation_.at_step(step);
    for (size_t r = 0; r < kept.size(); ++r) before(trial_.ranks[r], step) = std::move(kept[r]);
    return expected;
  }

  static NamedTensors& before(Evidence& rank, int64_t step) {
    return step == 0 ? rank.parameters : rank.steps[static_cast<size_t>(step - 1)].parameters;
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
    const auto communicated_in_bfloat16 =
        hidden_roundings_.begun() ? communicated(expected, at::kBFloat16) : std::vector<at::Tensor>{};
    for (size_t p = 0; p < trial_.names.size(); ++p) {
      if (!used(expected, rank, p)) continue;
      const at::Tensor before = find(parameters, trial_.names[p])->to(at::kDouble);
      // For a large model, `before` holds the selected elements as a flat tensor. The optimizer's rates depend on the
      // number of dimensions of the whole parameter.
      const int64_t dimensions = find(trial_.ranks[rank].parameters, trial_.names[p])->dim();
      const UpdateRates rates = update_rates(spec_, trial_.scenario.first + step, dimensions);
      const at::Tensor change = optimizers_.of(rank, p).step(spec_, rates, before, gradient[p] * factor, 0).first;
      if (hidden_roundings_.begun())
        hidden_roundings_.add(p, gradient[p] * factor, communicated_in_bfloat16[p] * factor, rates.learning, change);
      for (auto& [name, tensor] : parameters)
        if (is_in(trial_.aliases[p], name)) tensor = (tensor.to(at::kDouble) + change).to(tensor.scalar_type());
    }
    return parameters;
  }

  void advance(int64_t step, const ExpectedStep& expected) {
    for (size_t r = 0; r < trial_.ranks.size(); ++r) {
      StepEvidence& after = trial_.ranks[r].steps[static_cast<size_t>(step)];
      after.parameters = r < optimizers_.ranks() ? stepped(step, r, expected)
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

  Trial trial_;
  Expectation expectation_;
  OptimizerSpec spec_;
  bool exact_;
  uint64_t jitter_;
  bool own_steps_;  // true if the optimizers of different ranks get different gradients
  Optimizers optimizers_;
  std::string missing_;  // see missing_parameter()
  HiddenRoundings hidden_roundings_;
};

}  // namespace

Course course_of(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 const std::vector<Evidence>& ranks, bool exact, uint64_t jitter) {
  return Walk(bench, scenario, clip_norm, ranks, exact, jitter).run();
}

double largest_move(const Trial& trial, const Course& course, size_t rank) {
  double most = 0;
  for (const auto& [name, due] : course.ranks[rank].parameters)
    if (const at::Tensor start = trial.start(rank, name); start.defined() && due.is_floating_point())
      most = std::max(most, largest_difference(due, start));
  return most;
}

}  // namespace dpbench
