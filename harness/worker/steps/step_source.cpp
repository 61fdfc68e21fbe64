#include "harness/worker/steps/step_source.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include <ATen/ATen.h>

#include "workloads/data/sampler.h"

namespace dpbench {
namespace {

constexpr int64_t cache_bytes = 1 << 20;  // largest epoch, in bytes, that is cached before timing
// Number of steps with one batch shape before a strategy that records steps (e.g. in a CUDA graph) replays them: at
// most three normal ones, then the recorded one (see StrategyInfo::recorded).
constexpr int64_t until_replayed = 4;

// Returns a replica's share of a step's samples: with n replicas every n-th sample, as DistributedSampler assigns them.
at::Tensor share(const at::Tensor& samples, const DataPlace& place) {
  return samples.slice(0, place.replica, std::nullopt, place.replicas).contiguous();
}

}  // namespace

StepSource::StepSource(const Workload& workload, const CaseSpec& spec, const StrategyInfo& strategy, int rank,
                       at::Device device)
    : workload_(workload), ids_only_(strategy.loads_samples) {
  const bool ranks = strategy.parallelism == Parallelism::ranks;
  const int64_t samples = workload.samples(), batch = spec.global_batch();
  // The smallest batch has one sample for each micro-batch of each replica. A strategy in a single process needs only
  // one sample for each micro-batch, even dp, which runs several replicas: some of them may get no samples.
  const DataPlace place = data_place(parse_mesh(spec.mesh), spec.world, rank);
  const int64_t least = (ranks ? place.replicas : 1) * spec.accumulate;
  if (batch > samples)
    throw UsageError("a global batch of " + std::to_string(batch) + " samples exceeds the " + std::to_string(samples) +
                     " samples of " + spec.workload + ". Use a smaller --batch.");
  if (batch < least)
    throw UsageError("a global batch of " + std::to_string(batch) + " samples is too small for " +
                     std::to_string(least) + " micro-batches. Use a larger --batch or a smaller world.");
  const at::Tensor order = epoch_order(samples, spec.seed, /*epoch=*/0, /*shuffle=*/true);
  int64_t step_bytes = 0;
  for (int64_t from = 0; from < samples; from += batch) {
    const int64_t taken = std::min(batch, samples - from);
    // Weak scaling drops a shorter last batch; strong scaling keeps it if every micro-batch gets a sample.
    if (taken < batch && (spec.scaling == Scaling::weak || taken < least)) break;
    const at::Tensor all = order.narrow(0, from, taken);
    ids_.push_back((ranks ? share(all, place) : all).tensor_split(spec.accumulate));
    global_samples_.push_back(taken);
  }
  prepare(0, 1);
  for (const Batch& one : load(ids_[0]))
    step_bytes += static_cast<int64_t>(one.input.nbytes() + one.target.nbytes() + one.ids.nbytes());
  if (step_bytes * steps_per_epoch() > cache_bytes) return;
  prepare(0, steps_per_epoch());
  for (const auto& micros : ids_) cached_.push_back(load(micros));
  // If one process drives all replicas, it splits each batch on the host: the cached batches stay there.
  if (strategy.parallelism != Parallelism::replicas) move_cache_to(device);
}

// Copies the cached samples to the device. One copy suffices, because they are the same in every epoch.
void StepSource::move_cache_to(at::Device device) {
  for (auto& micros : cached_)
    for (Batch& batch : micros) batch = {batch.input.to(device), batch.target.to(device), batch.ids.to(device)};
}

void StepSource::prepare(int64_t first_step, int64_t count) const {
  for (int64_t step = first_step; step < first_step + std::min(count, steps_per_epoch()); ++step)
    for (const at::Tensor& ids : ids_[static_cast<size_t>(step % steps_per_epoch())]) workload_.prepare(ids);
}

std::vector<Batch> StepSource::load(const std::vector<at::Tensor>& micros) const {
  std::vector<Batch> batches;
  batches.reserve(micros.size());
  for (const at::Tensor& ids : micros) batches.push_back(workload_.batch(ids));
  return batches;
}

std::span<const Batch> StepSource::at(int64_t step) {
  const auto index = static_cast<size_t>(step % steps_per_epoch());
  if (!cached_.empty()) return cached_[index];
  // Free the previous step's batch first: this step's batch reuses its memory, which is still in the CPU caches.
  current_.clear();
  if (!ids_only_) {
    current_ = load(ids_[index]);
    return current_;
  }
  for (const at::Tensor& ids : ids_[index]) current_.push_back({{}, {}, ids});
  return current_;
}

int64_t StepSource::samples(int64_t first_step, int64_t count) const {
  int64_t samples = 0;
  for (int64_t step = first_step; step < first_step + count; ++step)
    samples += global_samples_[static_cast<size_t>(step % steps_per_epoch())];
  return samples;
}

std::vector<int64_t> recording_steps(const CaseSpec& spec, const StepSource& source) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  if (!promised(info, Params(info.params, spec.params, spec.strategy)).recorded) return {};
  std::vector<int64_t> steps;
  std::set<int64_t> sizes;  // global batch sizes seen so far; each determines every rank's batch size
  for (int64_t step = 0; step < source.steps_per_epoch(); ++step)
    if (sizes.insert(source.samples(step, 1)).second) steps.insert(steps.end(), until_replayed, step);
  return steps;
}

}  // namespace dpbench
