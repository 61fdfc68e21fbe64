// BatchNorm over the rows of all ranks: what torch's SyncBatchNorm is to BatchNorm.
#pragma once

#include <string>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "workloads/api/workload.h"

namespace dpbench {

// Every BatchNorm layer of the model then reduces its sums over the group, in forward and in backward. Throws
// UsageError, beginning with what asked for it, where there is none or one of torch's own, whose sums nobody can
// reduce.
void synchronise_batch_norm(Model& model, const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            const std::string& asked);

}  // namespace dpbench
