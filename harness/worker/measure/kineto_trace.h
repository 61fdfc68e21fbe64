// Records a Kineto trace (profiler timeline) of a few steps of this rank, annotated with the phases of a step: forward,
// backward, communication, ...
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include "harness/report/export/trace.h"
#include "strategies/api/phases.h"

namespace dpbench {

class Trace : public PhaseListener {
 public:
  explicit Trace(c10::Device device);  // starts recording the trace
  void entered(Phase phase, Time) override;
  void left(Time) override { annotation_.reset(); }
  // Stops recording. Writes the trace, with `collectives` in rows of their own, to a file in Chrome's JSON format.
  void save(const std::string& file, const std::vector<TracedCollective>& collectives);

 private:
  std::optional<at::RecordFunction> annotation_;
};

}  // namespace dpbench
