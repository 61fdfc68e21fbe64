// A map from the name of a parameter or buffer to a tensor: its value, gradient or optimizer state, or a rank's piece
// of that tensor.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace dpbench {

using ByName = std::map<std::string, at::Tensor>;

}  // namespace dpbench
