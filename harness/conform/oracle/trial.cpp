#include "harness/conform/oracle/trial.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/oracle/expectation.h"
#include "workloads/base/joined_samples.h"

namespace dpbench {

std::vector<std::vector<std::string>> aliases_of(const Model& model, const std::vector<std::string>& names) {
  const auto parameters = model.named_parameters();
  std::vector<std::vector<std::string>> result;
  for (const auto& name : names) {
    result.emplace_back();
    for (const auto& item : parameters)
      if (item.value().is_same(parameters[name])) result.back().push_back(item.key());
  }
  return result;
}

const NamedTensors& Trial::parameters_before(int64_t step, int rank) const {
  const Evidence& evidence = ranks[static_cast<size_t>(rank)];
  return step == 0 ? evidence.parameters : evidence.steps[static_cast<size_t>(step - 1)].parameters;
}

const NamedTensors& Trial::buffers_before(int64_t step, int rank) const {
  const Evidence& evidence = ranks[static_cast<size_t>(rank)];
  return step == 0 ? evidence.buffers : evidence.steps[static_cast<size_t>(step - 1)].buffers;
}

at::Tensor Trial::start(size_t rank, const std::string& name) const {
  const at::Tensor* found = find(ranks[rank].parameters, name);
  return found ? scenario.sample.of(*found) : at::Tensor();
}

at::Tensor Trial::reported(int64_t step, size_t parameter, int rank) const {
  const auto& gradients = ranks[static_cast<size_t>(rank)].steps[static_cast<size_t>(step)].gradients;
  for (const auto& name : aliases[parameter])
    if (const at::Tensor* found = find(gradients, name); found && found->defined()) return *found;
  return {};
}

std::string Trial::place(int64_t index) const {
  return ", step " + std::to_string(scenario.first + index) + ", scenario " + scenario.name;
}

std::string Trial::place(int64_t rank, int64_t index) const { return ", rank " + std::to_string(rank) + place(index); }

Trial make_trial(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 std::vector<Evidence> ranks) {
  Trial trial{bench, scenario, clip_norm, std::move(ranks), {}, {}, {}};
  Expectation expectation(trial, is_exact(scenario));
  trial.names = expectation.oracle().names();
  trial.aliases = aliases_of(*first_model(bench), trial.names);
  for (int64_t step = 0; step < static_cast<int64_t>(trial.ranks[0].steps.size()); ++step)
    trial.expected.push_back(step < scenario.judged_from ? ExpectedStep{} : expectation.at_step(step));
  return trial;
}

at::Tensor expected_output(const Trial& trial, const ExpectedStep& step, int rank) {
  std::vector<at::Tensor> outputs;
  for (const auto& shard : step.shards)
    if (trial.bench.distribution.owners() == 1 || shard.replica == trial.replica_of(rank))
      outputs.push_back(shard.output);
  return outputs.empty() ? at::Tensor() : joined_samples(outputs);
}

at::Tensor expected_loss(const Trial& trial, const ExpectedStep& step, int rank) {
  at::Tensor sum;
  const bool coupled = trial.bench.strategy.gradient == Gradient::gathered;
  int64_t last = -1, micros = 1;
  for (const auto& shard : step.shards) micros = std::max(micros, shard.micro + 1);
  for (const auto& shard : step.shards) {
    if (coupled ? shard.micro == last : shard.replica != trial.replica_of(rank)) continue;
    last = shard.micro;
    sum = sum.defined() ? sum + shard.loss : shard.loss;
  }
  return sum.defined() ? sum / static_cast<double>(micros) : sum;
}

Buffers meant_buffers(const Trial& trial) {
  const Buffers promised = trial.bench.strategy.buffers;
  return promised == Buffers::unchanged && trial.world() == 1 ? Buffers::first_replica : promised;
}

const NamedTensors& expected_buffers(const Trial& trial, const ExpectedStep& expected, int rank) {
  switch (meant_buffers(trial)) {
    case Buffers::unchanged:
      return trial.ranks[static_cast<size_t>(rank)].buffers;
    case Buffers::rank0:
    case Buffers::local:
      return expected.buffers[static_cast<size_t>(trial.replica_of(rank))];
    default:
      return expected.buffers[0];
  }
}

OtherPass other_pass(const Trial& trial) {
  const bool exact = trial.scenario.dtype == at::kDouble;
  const double scale = exact ? unit_roundoff(at::kDouble) / unit_roundoff(at::kFloat) : 1;
  Scenario scenario = trial.scenario;
  scenario.dtype = exact ? at::kFloat : at::kDouble;
  const Trial again{trial.bench, scenario, trial.clip_norm, trial.ranks, {}, {}, {}};
  Expectation expectation(again, is_exact(scenario));
  OtherPass other{.expected = std::vector<ExpectedStep>(trial.expected.size()),
                  .rounding = std::vector<double>(trial.names.size(), 0)};
  for (auto step = static_cast<size_t>(trial.scenario.judged_from); step < trial.expected.size(); ++step) {
    const ExpectedStep& mine = trial.expected[step];
    ExpectedStep& its = other.expected[step];
    its = expectation.at_step(static_cast<int64_t>(step));
    for (size_t p = 0; p < other.rounding.size(); ++p) {
      at::Tensor error = at::zeros_like(mine.gradient[p]);
      for (size_t i = 0; i < mine.shards.size(); ++i)
        error += (its.shards[i].gradient[p].to(at::kDouble) - mine.shards[i].gradient[p].to(at::kDouble)).abs() *
                 (mine.shares[i] * (mine.unreduced[p] ? mine.unreduced_share : 1));
      if (error.numel() > 0) other.rounding[p] = std::max(other.rounding[p], scale * error.max().item<double>());
    }
    its.shards.clear();  // the gradients of each forward pass are freed, because they take gigabytes for a large model
  }
  return other;
}

ExpectedStep first_step(const Bench& bench, const Scenario& scenario) {
  const auto model = first_model(bench);
  Trial trial{bench, scenario, {}, {}, {}, {}, {}};
  for (int rank = 0; rank < bench.distribution.owners(); ++rank) {
    Evidence& start = trial.ranks.emplace_back();
    for (const auto& item : model->named_parameters()) start.parameters.emplace_back(item.key(), item.value());
    for (const auto& item : model->named_buffers()) start.buffers.emplace_back(item.key(), item.value());
    start.steps.push_back({.ids = ids_of(scenario, bench.distribution, bench.seed, 0, rank)});
  }
  return Expectation(trial, is_exact(scenario)).at_step(0);
}

}  // namespace dpbench
