// A backward pass that is faster than torch's autograd engine for small graphs on the CPU. With --runtime torch,
// torch's engine runs every backward pass.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpbench {

// Computes the same gradients as loss.backward(), bit for bit, but without the overhead of torch's engine, which for a
// small graph is as large as the computation. A graph that is entirely on the CPU runs on the calling thread, in the
// engine's order and with all hooks. The engine runs all other graphs, complex losses, and every graph under anomaly
// detection.
void backward(const at::Tensor& loss);
// Runs the backward pass of an output of any shape, like output.backward(slope), in the same way as backward(loss).
// slope: the gradient of the output.
void backward(const at::Tensor& output, const at::Tensor& slope);
// Runs the backward pass of a loss whose graph has hooks that queue callbacks in torch's engine, as c10d's Reducer
// does. Torch's engine sees the whole graph as one node, which runs it as backward(loss) does, and then runs the queued
// callbacks.
void backward_with_callbacks(const at::Tensor& loss);

}  // namespace dpbench
