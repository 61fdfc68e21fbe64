#include "workloads/data/sampler.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/randperm.h>

#include "workloads/base/error.h"
#include "workloads/layers/init.h"

namespace dpbench {

at::Tensor epoch_order(int64_t samples, uint64_t seed, int64_t epoch, bool shuffle) {
  if (!shuffle) return at::arange(samples);
  return at::randperm(samples, own_generator(seed + static_cast<uint64_t>(epoch)), at::TensorOptions(at::kLong));
}

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  check(options.samples >= 1 && options.world >= 1, "a sampler needs samples and at least one rank");
  check(options.rank >= 0 && options.rank < options.world, "a sampler's rank must be in 0 .. world - 1");
  set_epoch(0);
}

void DistributedSampler::set_epoch(int64_t epoch) {
  const auto& [samples, world, rank, shuffle, seed, drop_last] = options_;
  auto order = epoch_order(samples, seed, epoch, shuffle);
  const int64_t each = drop_last ? samples / world : (samples + world - 1) / world;
  // Appends repetitions of the order of samples until all ranks get equal counts. More than one is needed if there are
  // far fewer samples than ranks.
  const int64_t times = (each * world + samples - 1) / samples;
  if (times > 1) order = order.repeat({times});
  indices_ = order.slice(0, 0, each * world).slice(0, rank, each * world, world).contiguous();
}

}  // namespace dpbench
