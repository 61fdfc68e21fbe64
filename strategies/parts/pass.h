// One replica's forward and backward pass over its samples, used by the strategy dp.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "strategies/api/parts/replica.h"
#include "strategies/parts/replica_threads.h"

namespace dpbench::dp {

// A replica's pass. Call load(), forward() and backward() in this order, on the replica's own thread.
class Pass {
 public:
  virtual ~Pass() = default;
  // Copies the samples to the replica's device. Their targets (labels) may be undefined: a pass does not compute the
  // loss.
  virtual void load(int64_t step, const Batch& rows, bool first_of_step) = 0;
  // Runs the forward pass and returns the model's output, detached from its autograd graph.
  virtual at::Tensor forward() = 0;
  // Runs the backward pass and adds to the parameters' gradients. slope: the gradient of the output. only_pass: true if
  // the step has no other pass.
  virtual void backward(const at::Tensor& slope, bool only_pass) = 0;
  // True if no other work may run on the device during forward() and backward(), because they are recorded as CUDA
  // graphs. Known once load() has been called.
  virtual bool runs_alone() const { return false; }
};

std::unique_ptr<Pass> plain_pass(const Replica& replica);

using Passes = std::vector<std::unique_ptr<Pass>>;  // pass objects, one per replica

// Runs the passes that must be alone on their device, one after the other: calls work(i) for each of them among the
// first `active` passes. While a CUDA graph is recorded, work of another thread on the device would be captured too.
// Each call runs on its replica's own thread: cuBLAS and cuDNN handles belong to a thread, and cannot be created while
// recording.
void run_lone_passes(const Passes& passes, int active, ReplicaThreads& threads,
                     const std::function<void(size_t)>& work);

}  // namespace dpbench::dp
