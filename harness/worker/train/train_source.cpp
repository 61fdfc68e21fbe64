#include "harness/worker/train/train_source.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

// Returns the number of this process's replica and the number of all replicas, which decide which samples the process
// gets. A single process gets all samples, even if it has several replicas.
DataPlace place_of(const CaseSpec& spec, int rank) {
  return spec.processes == 1 ? DataPlace{} : data_place(parse_mesh(spec.mesh), spec.world, rank);
}

}  // namespace

TrainSource::TrainSource(const Workload& workload, const CaseSpec& spec, const Recipe& recipe, bool drop_last, int rank)
    : workload_(workload),
      replicas_(place_of(spec, rank).replicas),
      accumulate_(spec.accumulate),
      // Round the local batch up if the replicas cannot divide the global batch evenly, so that all ranks take the same
      // number of steps.
      local_batch_((spec.global_batch() + replicas_ - 1) / replicas_),
      sampler_({.samples = workload.samples(),
                .world = place_of(spec, rank).replicas,
                .rank = place_of(spec, rank).replica,
                .shuffle = recipe.shuffle,
                .seed = spec.seed,
                .drop_last = drop_last}) {
  steps_ = (sampler_.size() + (drop_last ? 0 : local_batch_ - 1)) / local_batch_;
  if (steps_ == 0)
    throw UsageError("--drop-last leaves no step: " + spec.workload + " has " + std::to_string(workload.samples()) +
                     " samples, fewer than a global batch of " + std::to_string(global_batch()) +
                     ". Use a smaller --batch.");
}

at::Tensor TrainSource::ids(int64_t step) const {
  const int64_t from = step * local_batch_;
  return sampler_.indices().slice(0, from, std::min(from + local_batch_, sampler_.size()));
}

std::vector<Batch> TrainSource::at(int64_t step) const {
  const at::Tensor all = ids(step);
  std::vector<Batch> micros;
  for (const at::Tensor& part : all.tensor_split(std::min(accumulate_, all.numel())))
    micros.push_back(workload_.batch(part));
  return micros;
}

int64_t TrainSource::samples(int64_t step) const { return ids(step).numel() * replicas_; }

}  // namespace dpbench
