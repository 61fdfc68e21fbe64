#include "harness/conform/oracle/expectation.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

using MicroBatches = std::vector<std::vector<Batch>>;  // batches indexed by micro-batch, then by replica

std::vector<Batch> pieces(const Batch& batch, int replicas) {
  const auto sizes = chunk_sizes(batch.samples(), replicas);
  const auto inputs = batch.input.split_with_sizes(sizes), targets = batch.target.split_with_sizes(sizes),
             ids = batch.ids.split_with_sizes(sizes);
  std::vector<Batch> result(static_cast<size_t>(replicas));
  for (size_t i = 0; i < sizes.size(); ++i) result[i] = {inputs[i], targets[i], ids[i]};
  return result;
}

// Returns the number of micro-batches of a step. A batch with few samples may have fewer micro-batches than
// requested.
int64_t micros_of(const Trial& trial, int64_t step) {
  size_t most = 1;
  for (const Evidence& rank : trial.ranks) most = std::max(most, rank.steps[static_cast<size_t>(step)].ids.size());
  return static_cast<int64_t>(most);
}

MicroBatches micro_batches(const Trial& trial, int64_t step) {
  const Distribution& distribution = trial.bench.distribution;
  MicroBatches micro(static_cast<size_t>(micros_of(trial, step)));
  const bool ranks = distribution.parallelism == Parallelism::ranks;
  for (int replica = 0; replica < (ranks ? distribution.world : 1); ++replica) {
    const int owner = ranks ? distribution.rank_of(replica) : 0;
    const auto& ids = trial.ranks[static_cast<size_t>(owner)].steps[static_cast<size_t>(step)].ids;
    for (size_t k = 0; k < micro.size(); ++k) {
      const Batch batch =
          k < ids.size() ? batch_of(trial.workload(), trial.scenario, distribution, ids[k], owner, step) : Batch{};
      if (ranks)
        micro[k].push_back(batch);
      else
        micro[k] = pieces(batch, distribution.world);
    }
  }
  return micro;
}

// Returns each micro-batch with the samples of all its replicas, as a single device would receive it. The batch is made
// anew, because replicas may pad their samples to different lengths.
MicroBatches joined(const Workload& workload, const MicroBatches& micro) {
  MicroBatches result;
  for (const auto& parts : micro) {
    std::vector<at::Tensor> ids;
    for (const auto& part : parts)
      if (part.ids.defined()) ids.push_back(part.ids);
    result.push_back({workload.batch(at::cat(ids))});
  }
  return result;
}

// Returns the buffers with which each replica starts a step under the strategy's buffer semantics.
std::vector<NamedTensors> buffers_at_start(const Trial& trial, int64_t step) {
  std::vector<NamedTensors> result;
  for (int r = 0; r < trial.world(); ++r)
    result.push_back(trial.buffers_before(
        step, trial.bench.strategy.buffers == Buffers::local ? trial.bench.distribution.rank_of(r) : 0));
  return result;
}

std::vector<at::Tensor> on_one_device(Oracle& oracle, int64_t step, const MicroBatches& micro,
                                      const std::vector<NamedTensors>& parameters,
                                      const std::vector<NamedTensors>& buffers) {
  const auto shards = oracle.shards(step, micro, Coupling::loss, parameters, buffers);
  return combine(shards, std::vector<double>(shards.size(), 1.0 / static_cast<double>(shards.size())));
}

std::vector<at::Tensor> of_replica(const ExpectedStep& expected, int replica) {
  std::vector<Shard> shards;
  std::vector<double> shares;
  for (size_t i = 0; i < expected.shards.size(); ++i)
    if (expected.shards[i].replica == replica)
      shards.push_back(expected.shards[i]), shares.push_back(expected.shares[i]);
  auto gradient = combine(shards, shares);
  for (size_t p = 0; p < gradient.size(); ++p)
    gradient[p] = expected.unreduced[p] ? gradient[p] * expected.unreduced_share : expected.gradient[p];
  return gradient;
}

}  // namespace

Expectation::Expectation(const Trial& trial, bool exact)
    : trial_(trial),
      oracle_(trial.workload(), exact ? at::kDouble : trial.scenario.dtype, trial.bench.step_seed(),
              Oracle::Replicas(trial.bench.strategy), trial.scenario.sample) {
  const uint64_t seed = trial.bench.step_seed();
  if (exact && (trial.scenario.against_one_device || trial.scenario.smooth))
    whole_.emplace(trial.workload(), at::kDouble, seed, Oracle::Replicas());
  if (!trial.scenario.smooth) return;
  Oracle::Replicas alike(trial.bench.strategy);
  single_.emplace(trial.workload(), trial.scenario.dtype, seed, alike);
  alike.device = trial.bench.devices.front();
  if (!alike.device.is_cpu()) single_on_device_.emplace(trial.workload(), trial.scenario.dtype, seed, alike);
}

ExpectedStep Expectation::at_step(int64_t step) {
  const StrategyInfo& strategy = trial_.bench.strategy;
  const int64_t number = trial_.scenario.first + step;
  const auto micro = micro_batches(trial_, step);
  const bool local = strategy.gradient == Gradient::local || !strategy.own.empty();
  std::vector<NamedTensors> parameters;
  for (int r = 0; r < (local ? trial_.world() : 1); ++r)
    parameters.push_back(trial_.parameters_before(step, trial_.bench.distribution.rank_of(r)));
  const auto buffers = buffers_at_start(trial_, step);
  const Coupling coupling = trial_.couples_samples()                  ? Coupling::batch
                            : strategy.gradient == Gradient::gathered ? Coupling::loss
                                                                      : Coupling::none;
  ExpectedStep expected;
  expected.shards = oracle_.shards(number, micro, coupling, parameters, buffers);
  expected.used = oracle_.used();
  expected.shares = shares(expected.shards, strategy.gradient, trial_.world(), static_cast<int64_t>(micro.size()),
                           trial_.workload().sum_loss());
  expected.gradient = combine(expected.shards, expected.shares);
  for (const auto& name : oracle_.names())
    expected.unreduced.push_back(strategy.gradient == Gradient::local || is_in(strategy.own, name));
  if (strategy.gradient != Gradient::local) expected.unreduced_share = trial_.world();
  for (int r = 0; local && r < static_cast<int>(trial_.ranks.size()); ++r)
    expected.own.push_back(of_replica(expected, trial_.replica_of(r)));
  for (int r = 0; r < trial_.world(); ++r) expected.buffers.push_back(oracle_.buffers(r));
  const MicroBatches together = whole_ || single_ ? joined(trial_.workload(), micro) : MicroBatches();
  const auto alone = [&](std::optional<Oracle>& oracle) {
    return oracle ? on_one_device(*oracle, number, together, {parameters.front()}, buffers) : std::vector<at::Tensor>();
  };
  expected.whole = alone(whole_), expected.single = alone(single_),
  expected.single_on_device = alone(single_on_device_);
  return expected;
}

}  // namespace dpbench
