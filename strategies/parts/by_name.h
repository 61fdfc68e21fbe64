// A map from the name of a parameter or buffer to its value, gradient or optimizer state, or to a rank's part of one.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace dpbench {

using ByName = std::map<std::string, at::Tensor>;

}  // namespace dpbench
