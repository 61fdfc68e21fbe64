// Counts the loss terms (usually one per sample) of every rank in a step of the strategy ddp, and computes the weight
// of each rank's loss from them.
#pragma once

#include <span>
#include <vector>

#include "strategies/ddp/options.h"

namespace dpbench::ddp {

class LossTerms {
 public:
  // The options, process group and workload must outlive this object.
  LossTerms(const Options& options, c10d::ProcessGroup& group, const Workload& workload)
      : options_(options), group_(group), workload_(workload) {}

  // Counts this rank's loss terms (usually one per sample) over the micro-batches of a step, and gets the other ranks'
  // counts. Collective: one small allreduce.
  void count(std::span<const Batch> micro, at::Device device);

  bool none() const;         // Returns true if no rank has samples.
  int first_active() const;  // Returns the first rank that has samples; 0 if no rank has any.
  // Returns the factor by which a micro-batch's loss is multiplied. The Reducer's mean over the initial world then
  // becomes the mean that ddp.global_mean or ddp.join_divisor asks for. The loss is already divided by this rank's
  // number of micro-batches.
  double weight(const Batch& batch, size_t micros) const;

 private:
  int64_t total() const;

  const Options& options_;
  c10d::ProcessGroup& group_;
  const Workload& workload_;
  std::vector<int64_t> terms_;  // number of loss terms of each rank; empty until counted
};

}  // namespace dpbench::ddp
