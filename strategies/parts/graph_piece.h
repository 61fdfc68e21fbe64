// A part of the autograd graph whose backward pass is run on its own.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct GraphPiece {
  at::Tensor input, output;
};

// In the order of the forward pass. The input of each is the detached output of the one before.
using GraphPieces = std::vector<GraphPiece>;

}  // namespace dpbench
