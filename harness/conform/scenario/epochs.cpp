#include "harness/conform/scenario/epochs.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "workloads/data/sampler.h"

namespace dpbench {
namespace {

struct Epoch {
  int64_t samples, batch;  // samples of an epoch; samples of a full batch over all ranks

  int64_t steps() const { return (samples + batch - 1) / batch; }
};

Epoch epoch_of(const Scenario& scenario, const Distribution& distribution, uint64_t seed) {
  const int64_t least = distribution.world * scenario.accumulate;  // at least one sample per replica and micro-batch
  const int64_t rows = scenario.rows_per_rank > 0 ? scenario.rows_per_rank : distribution.rows_per_rank;
  const int64_t batch = std::min(least * rows, distribution.samples);
  const int64_t full = std::max<int64_t>(1, std::min(scenario.steps / 2, distribution.samples / batch));
  // The last batch of an epoch is shorter by a number that depends on the seed.
  const int64_t spare = full > 1 && scenario.short_batches ? batch - least : 0;
  return {full * batch - (spare > 0 ? 1 + static_cast<int64_t>(seed) % spare : 0), batch};
}

}  // namespace

std::vector<at::Tensor> epoch_ids(const Scenario& scenario, const Distribution& distribution, uint64_t seed,
                                  int64_t step, int owner) {
  const Epoch epoch = epoch_of(scenario, distribution, seed);
  const at::Tensor order = epoch_order(epoch.samples, seed, step / epoch.steps(), /*shuffle=*/true);
  const int64_t from = step % epoch.steps() * epoch.batch;
  at::Tensor rows = order.slice(0, from, std::min(from + epoch.batch, epoch.samples));
  if (distribution.parallelism == Parallelism::ranks)
    rows = rows.slice(0, distribution.replica_of(owner), std::nullopt, distribution.world);
  std::vector<at::Tensor> micro;
  for (const at::Tensor& ids : rows.tensor_split(scenario.accumulate, 0)) micro.push_back(ids.contiguous());
  return micro;
}

}  // namespace dpbench
