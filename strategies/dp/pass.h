// One replica's way through its rows: forward, and backward from the slope of what came out. As it is, or recorded.
#pragma once

#include <memory>

#include "strategies/comm/step_graph.h"
#include "strategies/replica.h"

namespace dpbench::dp {

// load, forward and backward, in this order, on the replica's own thread.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void load(int64_t step, const Batch& rows, bool first_of_step) = 0;  // to the device; needs no target
  virtual at::Tensor forward() = 0;                        // the output, without autograd's graph
  // Adds to the gradients. only: no other pass of this step does.
  virtual void backward(const at::Tensor& slope, bool only) = 0;
  // Once loaded: forward and backward are recorded this time, and nothing else may be asked of any device meanwhile.
  virtual bool records() const { return false; }
};

std::unique_ptr<Pass> plain_pass(const Replica& replica);
// In the first step of a shape they run as they are, in the second they are recorded as two graphs, from then on replayed.
std::unique_ptr<Pass> recorded_pass(const Replica& replica, StepRecorder& recorder);

}  // namespace dpbench::dp
