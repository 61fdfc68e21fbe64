// The rows of every step of a training run, as the documents' loaders deal them: a DistributedSampler for each rank.
#pragma once

#include <vector>

#include "harness/report/record/case.h"
#include "strategies/api/strategy.h"
#include "workloads/data/sampler.h"

namespace dpbench {

class TrainSource {
 public:
  // Throws UsageError when there is no step in an epoch.
  TrainSource(const Workload& workload, const CaseSpec& spec, const Recipe& recipe, bool drop_last, int rank);

  int64_t steps_per_epoch() const { return steps_; }
  int64_t global_batch() const { return local_batch_ * ranks_; }
  void set_epoch(int64_t epoch) { sampler_.set_epoch(epoch); }
  // The micro-batches of a step of the epoch; a short last batch may have fewer of them.
  std::vector<Batch> at(int64_t step) const;
  // Rows of all ranks together.
  int64_t rows(int64_t step) const;
  // Makes this rank's rows quick to get. Never timed.
  void prepare() const { workload_.prepare(sampler_.indices()); }

 private:
  at::Tensor ids(int64_t step) const;

  const Workload& workload_;
  int64_t ranks_, accumulate_, local_batch_, steps_ = 0;
  DistributedSampler sampler_;
};

}  // namespace dpbench
