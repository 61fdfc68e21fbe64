// Whether all ranks have made the same model, asked before anything of it is sent.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/parts/replica.h"

namespace dpbench {

// Throws where a parameter or buffer of this rank has another name, shape or type than rank 0's, or is trained by one
// of the two alone: which, and both forms.
void require_same_model(c10d::ProcessGroup& group, const Replica& replica);

}  // namespace dpbench
