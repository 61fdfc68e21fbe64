// Makes a workload with all options of a case, including --recompute, which a wrapper implements for every workload.
#pragma once

#include <memory>
#include <utility>

#include "harness/conform/scenario/wrapped_workload.h"
#include "workloads/base/error.h"

namespace dpbench {

// A workload with activation checkpointing: its models recompute blocks in the backward pass (see Model::recompute).
class RecomputingWorkload : public WrappedWorkload {
 public:
  RecomputingWorkload(std::unique_ptr<Workload> inner, int64_t blocks)
      : WrappedWorkload(*inner), owned_(std::move(inner)), blocks_(blocks) {}

  std::shared_ptr<Model> model(uint64_t seed) const override {
    auto model = inner_.model(seed);
    if (model->blocks().empty())
      throw UsageError(
          "--recompute: the model is not a list of blocks. In Python, model() must return an nn.Sequential");
    model->recompute(blocks_);
    return model;
  }

 private:
  std::unique_ptr<Workload> owned_;
  int64_t blocks_;
};

inline std::unique_ptr<Workload> make_workload(const WorkloadInfo& info, const WorkloadOptions& options) {
  auto workload = info.make(options);
  if (options.recompute == 0) return workload;
  return std::make_unique<RecomputingWorkload>(std::move(workload), options.recompute);
}

}  // namespace dpbench
