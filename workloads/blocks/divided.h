// Tensor parallelism of a stack of layers: the output features of one layer are cut, then the input features of the
// next, and so on. Ranks communicate only around each pair of layers: in enter() before the first and in leave() after
// the second.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "workloads/api/tensor_split.h"

namespace dpbench {

// Which features of a layer are cut among ranks. inputs: the layer gets only this rank's piece of the features from the
// previous layer. whole_inputs: it gets all features and takes this rank's piece of them.
enum class Cutting { none, outputs, inputs, whole_inputs };

// Returns which features of layer number `depth` of a stack are cut: outputs in the first layer, inputs in the second,
// and so on. The last layer's outputs are never cut: the layer stays whole instead, or is cut by its inputs if it is
// the only layer.
inline Cutting cutting_of(int64_t depth, int64_t layers) {
  if (layers == 1) return Cutting::whole_inputs;
  if (depth % 2 == 1) return Cutting::inputs;
  return depth + 1 == layers ? Cutting::none : Cutting::outputs;
}

struct StackLayer {
  std::string name;                 // name of the layer; its parameters are name.weight and, with has_bias, name.bias
  int64_t inputs = 0, outputs = 0;  // number of features
  // Number of values that a sample has per input feature, and per output feature.
  int64_t pixels_in = 1, pixels_out = 1;
  bool has_bias = true;
  // Names of the layer's other parameters and buffers that have one element per output feature.
  std::vector<std::string> per_output = {};
};

// Returns the tensor-parallel plan of a stack of layers, each a block of its model. Throws UsageError if a layer has
// fewer features than there are ranks.
TensorPlan plan_of_stack(const std::vector<StackLayer>& layers, int ranks);

// Computes a layer, of which this rank has only the features that `cutting` says. `Layer` must have the functions
// forward(x), without_bias(x) and bias(). bias() returns what must be added to the result of without_bias().
template <class Layer>
at::Tensor divided(const Layer& layer, const at::Tensor& x, Cutting cutting, const TensorSplit* split) {
  if (!split || cutting == Cutting::none) return layer.forward(x);
  if (cutting == Cutting::outputs) return layer.forward(split->enter(x));
  at::Tensor pieces = x;
  if (cutting == Cutting::whole_inputs) {
    const Piece mine = own_piece(x.size(1), *split);
    pieces = split->enter(x).narrow(1, mine.first, mine.size);
  }
  const at::Tensor sum = split->leave(pieces, [&](const at::Tensor& samples) { return layer.without_bias(samples); });
  const at::Tensor bias = layer.bias();
  // The bias is converted to the dtype of the sum. Under autocast that is bfloat16, in which an undivided layer adds
  // its bias too.
  return bias.defined() ? sum + bias.to(sum.scalar_type()) : sum;
}

}  // namespace dpbench
