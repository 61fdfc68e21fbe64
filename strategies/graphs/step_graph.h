// Interface for a step that is recorded once and replayed as a whole. dpbench_cuda implements it with CUDA graphs.
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

// While it lives, this thread works on a recordable stream of the device. At most one per device, constructed and
// destroyed in the same thread. Other threads on the same stream may record through it.
class StepRecorder {
 public:
  virtual ~StepRecorder() = default;
  // True if collectives of this c10d backend are recorded together with the rest of the body.
  virtual bool takes_backend(const std::string& name) const = 0;
  // Calls body without executing its work on the device. Each replay executes it in the memory that body allocated.
  virtual std::unique_ptr<StepGraph> record(const std::function<void()>& body) = 0;
};

// Set by dpbench_cuda when it is loaded, or by a test; null before. Throws UsageError for a device without recording.
using MakeStepRecorder = std::unique_ptr<StepRecorder> (*)(c10::Device device);
MakeStepRecorder& step_recorder();

}  // namespace dpbench
