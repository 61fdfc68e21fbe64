// Checks that all ranks have built the same model, before any of it is sent.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/parts/replica.h"

namespace dpbench {

// Throws if a parameter or buffer of this rank differs from rank 0's in name, shape, dtype or requires_grad. The
// message gives both.
void require_same_model(c10d::ProcessGroup& group, const Replica& replica);

}  // namespace dpbench
