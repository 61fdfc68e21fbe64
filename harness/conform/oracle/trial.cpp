#include "harness/conform/oracle/trial.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"

namespace dpbench {
namespace {

using MicroBatches = std::vector<std::vector<Batch>>;  // batches indexed by micro-batch, then by replica

std::vector<Batch> pieces(const Batch& batch, int replicas) {
  const auto sizes = chunk_sizes(batch.rows(), replicas);
  const auto inputs = batch.input.split_with_sizes(sizes), targets = batch.target.split_with_sizes(sizes),
             ids = batch.ids.split_with_sizes(sizes);
  std::vector<Batch> result(static_cast<size_t>(replicas));
  for (size_t i = 0; i < sizes.size(); ++i) result[i] = {inputs[i], targets[i], ids[i]};
  return result;
}

MicroBatches micro_batches(const Bench& bench, const Scenario& scenario, int64_t step) {
  const Layout& layout = bench.layout;
  MicroBatches micro(static_cast<size_t>(scenario.accumulate));
  for (int owner = 0; owner < layout.owners(); ++owner) {
    const auto ids = ids_of(scenario, layout, bench.seed, step, owner);
    for (size_t k = 0; k < micro.size(); ++k) {
      const Batch batch = k < ids.size() ? batch_of(bench.workload, scenario, layout, ids[k], owner, step) : Batch{};
      if (layout.parallelism == Parallelism::ranks)
        micro[k].push_back(batch);
      else
        micro[k] = pieces(batch, layout.world);
    }
  }
  return micro;
}

// Returns each micro-batch with its replicas' parts concatenated, as a single device would receive it.
MicroBatches joined(const MicroBatches& micro) {
  MicroBatches result;
  for (const auto& parts : micro) {
    std::vector<at::Tensor> input, target, ids;
    for (const auto& part : parts)
      if (part.ids.defined()) input.push_back(part.input), target.push_back(part.target), ids.push_back(part.ids);
    result.push_back({Batch{at::cat(input), at::cat(target), at::cat(ids)}});
  }
  return result;
}

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

// Returns the buffers with which each replica starts a step under the strategy's buffer semantics.
std::vector<NamedTensors> buffers_at_start(const Trial& trial, int64_t step) {
  std::vector<NamedTensors> result;
  for (int r = 0; r < trial.world(); ++r)
    result.push_back(trial.buffers_before(step, trial.bench.strategy.buffers == Buffers::local ? r : 0));
  return result;
}

std::vector<at::Tensor> on_one_device(Oracle& oracle, int64_t step, const MicroBatches& micro,
                                      const std::vector<NamedTensors>& parameters,
                                      const std::vector<NamedTensors>& buffers) {
  const auto shards = oracle.shards(step, micro, Coupling::loss, parameters, buffers);
  return combine(shards, std::vector<double>(shards.size(), 1.0 / static_cast<double>(shards.size())));
}

class Expectation {
 public:
  Expectation(Trial& trial)
      : trial_(trial),
        exact_(trial.scenario.dtype == at::kDouble || trial.scenario.smooth),
        oracle_(trial.workload(), exact_ ? at::kDouble : trial.scenario.dtype, trial.bench.step_seed(), trial.world(),
                trial.bench.strategy.onednn),
        whole_(trial.workload(), at::kDouble, trial.bench.step_seed(), 1, /*onednn=*/false),
        single_(trial.workload(), trial.scenario.dtype, trial.bench.step_seed(), 1, trial.bench.strategy.onednn) {}

  const Oracle& oracle() const { return oracle_; }

  ExpectedStep at_step(int64_t step) {
    const StrategyInfo& strategy = trial_.bench.strategy;
    const auto micro = micro_batches(trial_.bench, trial_.scenario, step);
    const bool local = strategy.gradient == Gradient::local || !strategy.own.empty();
    std::vector<NamedTensors> parameters;
    for (int r = 0; r < (local ? trial_.world() : 1); ++r) parameters.push_back(trial_.parameters_before(step, r));
    const auto buffers = buffers_at_start(trial_, step);
    const Coupling coupling = strategy.buffers == Buffers::synchronised ? Coupling::batch
                              : strategy.gradient == Gradient::gathered ? Coupling::loss
                                                                        : Coupling::none;
    ExpectedStep expected;
    expected.shards = oracle_.shards(step, micro, coupling, parameters, buffers);
    expected.used = oracle_.used();
    expected.shares = shares(expected.shards, strategy.gradient, trial_.world(), trial_.scenario.accumulate,
                             trial_.workload().sum_loss());
    expected.gradient = combine(expected.shards, expected.shares);
    for (const auto& name : oracle_.names())
      expected.unreduced.push_back(strategy.gradient == Gradient::local || is_in(strategy.own, name));
    if (strategy.gradient != Gradient::local) expected.unreduced_share = trial_.world();
    for (int r = 0; local && r < trial_.world(); ++r) expected.own.push_back(of_rank(expected, r));
    for (int r = 0; r < trial_.world(); ++r) expected.buffers.push_back(oracle_.buffers(r));
    if (!exact_) return expected;
    if (!trial_.scenario.against_one_device && !trial_.scenario.smooth) return expected;
    expected.whole = on_one_device(whole_, step, joined(micro), {parameters.front()}, buffers);
    if (trial_.scenario.smooth)
      expected.single = on_one_device(single_, step, joined(micro), {parameters.front()}, buffers);
    return expected;
  }

 private:
  static std::vector<at::Tensor> of_rank(const ExpectedStep& expected, int rank) {
    std::vector<Shard> shards;
    std::vector<double> shares;
    for (size_t i = 0; i < expected.shards.size(); ++i)
      if (expected.shards[i].replica == rank)
        shards.push_back(expected.shards[i]), shares.push_back(expected.shares[i]);
    auto gradient = combine(shards, shares);
    for (size_t p = 0; p < gradient.size(); ++p)
      gradient[p] = expected.unreduced[p] ? gradient[p] * expected.unreduced_share : expected.gradient[p];
    return gradient;
  }

  Trial& trial_;
  bool exact_;
  Oracle oracle_, whole_, single_;
};

}  // namespace

const NamedTensors& Trial::parameters_before(int64_t step, int rank) const {
  const Evidence& evidence = ranks[static_cast<size_t>(rank)];
  return step == 0 ? evidence.parameters : evidence.steps[static_cast<size_t>(step - 1)].parameters;
}

const NamedTensors& Trial::buffers_before(int64_t step, int rank) const {
  const Evidence& evidence = ranks[static_cast<size_t>(rank)];
  return step == 0 ? evidence.buffers : evidence.steps[static_cast<size_t>(step - 1)].buffers;
}

at::Tensor Trial::reported(int64_t step, size_t parameter, int rank) const {
  const auto& gradients = ranks[static_cast<size_t>(rank)].steps[static_cast<size_t>(step)].gradients;
  for (const auto& name : aliases[parameter])
    if (const at::Tensor* found = find(gradients, name); found && found->defined()) return *found;
  return {};
}

Trial make_trial(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 std::vector<Evidence> ranks) {
  Trial trial{bench, scenario, clip_norm, std::move(ranks), {}, {}, {}};
  Expectation expectation(trial);
  trial.names = expectation.oracle().names();
  trial.aliases = aliases_of(*first_model(bench), trial.names);
  for (int64_t step = 0; step < static_cast<int64_t>(trial.ranks[0].steps.size()); ++step)
    trial.expected.push_back(step < scenario.judged_from ? ExpectedStep{} : expectation.at_step(step));
  return trial;
}

OtherPass other_pass(const Trial& trial) {
  const bool exact = trial.scenario.dtype == at::kDouble;
  const double scale = exact ? unit_roundoff(at::kDouble) / unit_roundoff(at::kFloat) : 1;
  Scenario scenario = trial.scenario;
  scenario.dtype = exact ? at::kFloat : at::kDouble;
  OtherPass other{.expected = make_trial(trial.bench, scenario, trial.clip_norm, trial.ranks).expected,
                  .rounding = std::vector<double>(trial.names.size(), 0)};
  for (auto step = static_cast<size_t>(trial.scenario.judged_from); step < trial.expected.size(); ++step) {
    const ExpectedStep &mine = trial.expected[step], &its = other.expected[step];
    for (size_t p = 0; p < other.rounding.size(); ++p) {
      at::Tensor error = at::zeros_like(mine.gradient[p]);
      for (size_t i = 0; i < mine.shards.size(); ++i)
        error += (its.shards[i].gradient[p].to(at::kDouble) - mine.shards[i].gradient[p].to(at::kDouble)).abs() *
                 (mine.shares[i] * (mine.unreduced[p] ? mine.unreduced_share : 1));
      if (error.numel() > 0) other.rounding[p] = std::max(other.rounding[p], scale * error.max().item<double>());
    }
  }
  return other;
}

ExpectedStep first_step(const Bench& bench, const Scenario& scenario) {
  const auto model = first_model(bench);
  Evidence start;
  for (const auto& item : model->named_parameters()) start.parameters.emplace_back(item.key(), item.value());
  for (const auto& item : model->named_buffers()) start.buffers.emplace_back(item.key(), item.value());
  Trial trial{bench, scenario, {}, std::vector<Evidence>(static_cast<size_t>(bench.layout.world), start), {}, {}, {}};
  return Expectation(trial).at_step(0);
}

}  // namespace dpbench
