// One replica's way through its rows: forward, and backward from the slope of what came out.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "strategies/parts/replica.h"
#include "strategies/parts/replica_threads.h"

namespace dpbench::dp {

// load, forward and backward, in this order, on the replica's own thread.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void load(int64_t step, const Batch& rows, bool first_of_step) = 0;  // to the device; needs no target
  virtual at::Tensor forward() = 0;                                            // the output, without autograd's graph
  // Adds to the gradients. only: no other pass of this step does.
  virtual void backward(const at::Tensor& slope, bool only) = 0;
  // Once loaded: forward and backward are recorded this time, and nothing else may be asked of any device meanwhile.
  virtual bool records() const { return false; }
};

std::unique_ptr<Pass> plain_pass(const Replica& replica);

using Passes = std::vector<std::unique_ptr<Pass>>;  // one of each replica

// work(i) for those of the first `active` passes that record, one after the other: a recording waits for its device,
// and would take in work that another thread gives the stream meanwhile. On the replica's own thread all the same:
// handles of cuBLAS and cuDNN are a thread's own, and cannot be made while recording.
void one_by_one_if_recorded(const Passes& passes, int active, ReplicaThreads& threads,
                            const std::function<void(size_t)>& work);

}  // namespace dpbench::dp
