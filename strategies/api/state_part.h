// The part of a training-state tensor that one rank of a sharded or divided model stores.
#pragma once

#include "workloads/api/tensor_part.h"

namespace dpbench {

struct StatePart {
  enum class Kind { parameter, buffer, state };

  Kind kind = Kind::parameter;
  TensorPart part;
};

}  // namespace dpbench
