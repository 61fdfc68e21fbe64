// BatchNorm with statistics over the samples of all ranks, like torch's SyncBatchNorm.
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "workloads/api/workload.h"

namespace dpbench {

// Makes every BatchNorm layer of the model reduce its sums over the group, in forward and backward. Throws UsageError,
// prefixed with `option`, if the model has no BatchNorm layer or one of torch's own, which cannot be synchronised.
void synchronise_batch_norm(Model& model, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            const std::string& option);

}  // namespace dpbench
