// The backward pass of the built-in strategies.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

// loss.backward(), with its bits: the gradients of all that the loss was made of are added to where they belong.
// Torch's engine takes as long to begin, to queue and to end as a small graph's own work does. Where all of a graph is
// on the CPU its nodes are called here instead, in the engine's order, with their hooks; else, and under anomaly
// detection, the engine does it.
void backward(const at::Tensor& loss);
// output.backward(slope).
void backward(const at::Tensor& output, const at::Tensor& slope);
// The same for a graph whose hooks ask the engine to call them when the pass ends, as c10d's Reducer does: as one node
// of the engine's.
void backward_with_callbacks(const at::Tensor& loss);

}  // namespace dpbench
