// Tensors by the name of the parameter or buffer whose shape they have.
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

namespace dpbench {

using ByName = std::map<std::string, at::Tensor>;

}  // namespace dpbench
