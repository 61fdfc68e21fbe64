// Checks that all ranks have built the same model, before parameters are broadcast.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/api/parts/replica.h"

namespace dpbench {

// Throws if a parameter or buffer of this rank differs from rank 0's in name, shape, dtype or requires_grad. The
// message describes this rank's tensor and rank 0's.
void require_same_model(c10d::ProcessGroup& group, const Replica& replica);

}  // namespace dpbench
