// Loads the samples of every training step. Each process has a DistributedSampler, as in the PyTorch tutorials.
#pragma once

#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"
#include "workloads/data/sampler.h"

namespace dpbench {

class TrainSource {
 public:
  // Throws UsageError if an epoch would have no step.
  TrainSource(const Workload& workload, const CaseSpec& spec, const Recipe& recipe, bool drop_last, int rank);

  int64_t steps_per_epoch() const { return steps_; }
  int64_t global_batch() const { return local_batch_ * replicas_; }
  void set_epoch(int64_t epoch) { sampler_.set_epoch(epoch); }
  // Returns this rank's micro-batches of a step; a short last batch may have fewer of them.
  std::vector<Batch> at(int64_t step) const;
  // Returns the number of samples in a step over all ranks.
  int64_t samples(int64_t step) const;
  // Generates or unpacks this rank's samples in advance, before timing.
  void prepare() const { workload_.prepare(sampler_.indices()); }

 private:
  at::Tensor ids(int64_t step) const;

  const Workload& workload_;
  int64_t replicas_, accumulate_, local_batch_, steps_ = 0;
  DistributedSampler sampler_;
};

}  // namespace dpbench
