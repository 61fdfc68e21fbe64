// Times the phases of a step (forward, backward, ...) on the GPU: records a CUDA event on the stream at each phase
// boundary and reads all events at the end.
#pragma once

#include <array>
#include <deque>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include "strategies/api/phases.h"

namespace dpbench {

class DevicePhases : public PhaseListener {
 public:
  explicit DevicePhases(c10::Device device) : device_(device) {}
  void entered(Phase phase, Time) override { mark(static_cast<int>(phase)); }
  void left(Time) override { mark(-1); }
  void moved(Phase phase, Time from, Time until) override;
  // Returns the total time of each phase on the GPU. Waits for the GPU to finish.
  std::array<double, phase_names.size()> total_ns();
  // Returns the GPU time from the first phase boundary to the last. Waits for the GPU to finish.
  double all_ns();

 private:
  struct Mark {
    int phase;
    c10::Event event;
  };
  void mark(int phase);

  c10::Device device_;
  std::deque<Mark> marks_;
  std::array<double, phase_names.size()> moved_ns_{};
};

}  // namespace dpbench
