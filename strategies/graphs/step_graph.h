// A step recorded once and then asked of a GPU as a whole. dpbench_cuda offers CUDA graphs for it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <c10/core/Device.h>

namespace dpbench {

class StepGraph {
 public:
  virtual ~StepGraph() = default;
  virtual void replay() = 0;  // on the calling thread's current stream
};

// While one lives, this thread works on a stream of the device that can be recorded. One at a time for each device,
// made and destroyed in the same thread; others may record by it that work on the same stream.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  // Whether what a body asks of this c10d backend is recorded with the rest.
  virtual bool takes_backend(const std::string& name) const = 0;
  // Calls body, but the device does nothing of it yet: all of it at each replay, in the memory that body took.
  virtual std::unique_ptr<StepGraph> record(const std::function<void()>& body) = 0;
};

// Set by dpbench_cuda when it is loaded, or by a test; null before. Throws UsageError for a device that has none.
using MakeStepRecorder = std::unique_ptr<StepRecorder> (*)(c10::Device device);
MakeStepRecorder& step_recorder();

}  // namespace dpbench
