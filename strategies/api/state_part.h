// The type StatePart: the part of a tensor of the training state (such as a parameter) that one rank of a sharded or
// divided model stores.
#pragma once

#include "workloads/api/tensor_part.h"

namespace dpbench {

struct StatePart {
  enum class Kind { parameter, buffer, state };

  Kind kind = Kind::parameter;
  TensorPart part;
};

}  // namespace dpbench
