// A piece of a model's autograd graph, with its own backward pass. The whole graph is cut into such pieces.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct GraphPiece {
  at::Tensor input, output;
};

// Pieces of a model's autograd graph, in the order of the forward pass. The input of each piece is the detached output
// of the piece before.
using GraphPieces = std::vector<GraphPiece>;

}  // namespace dpbench
