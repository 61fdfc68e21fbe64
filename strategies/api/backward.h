// The backward pass of the built-in strategies.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

// Equivalent to loss.backward(), bit for bit, but without the overhead of torch's engine, which for a small graph is as
// large as the computation. A graph that is entirely on the CPU runs on the calling thread, in the engine's order and
// with all hooks. Other graphs, and all graphs under anomaly detection, use the engine.
void backward(const at::Tensor& loss);
// Equivalent to output.backward(slope).
void backward(const at::Tensor& output, const at::Tensor& slope);
// backward(loss) for graphs with hooks that queue engine callbacks, as c10d's Reducer does. The engine runs the whole
// graph as one node.
void backward_with_callbacks(const at::Tensor& loss);

}  // namespace dpbench
