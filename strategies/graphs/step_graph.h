// Interface for recording a training step, or a part of it, once and replaying it as a whole. The library dpbench_cuda
// implements it with CUDA graphs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <c10/core/Device.h>

namespace dpbench {

class StepGraph {
 public:
  virtual ~StepGraph() = default;
  virtual void replay() = 0;  // Starts the recorded work again, on the calling thread's current stream.
};

// Records work on one device. While a recorder exists, its thread works on a stream of the device that allows
// recording. At most one recorder per device may exist; it is constructed and destroyed in the same thread. Other
// threads may record through it if they work on the same stream.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  // True if collectives of this c10d backend can be recorded with the rest of a step.
  virtual bool takes_backend(const std::string& name) const = 0;
  // Calls `body` and records the device work that it starts, without executing it. Each replay of the returned graph
  // executes this work, in the memory that `body` allocated.
  virtual std::unique_ptr<StepGraph> record(const std::function<void()>& body) = 0;
};

// A function that creates a recorder of CUDA graphs for a device, or throws UsageError if the device cannot record.
// step_recorder() returns a reference to the function in use, which is null until dpbench_cuda is loaded or a test sets
// it.
using MakeStepRecorder = std::unique_ptr<StepRecorder> (*)(c10::Device device);
MakeStepRecorder& step_recorder();

}  // namespace dpbench
