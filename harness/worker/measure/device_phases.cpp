#include "harness/worker/measure/device_phases.h"

#include <chrono>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace dpbench {

void DevicePhases::mark(int phase) {
  Mark& mark = marks_.emplace_back(phase, c10::Event(device_.type(), c10::EventFlag::BACKEND_DEFAULT));
  mark.event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

void DevicePhases::moved(Phase phase, Time from, Time until) {
  const auto ns = static_cast<double>(std::chrono::nanoseconds(until - from).count());
  if (marks_.empty() || marks_.back().phase < 0) return;
  moved_ns_[static_cast<size_t>(marks_.back().phase)] -= ns;
  moved_ns_[static_cast<size_t>(phase)] += ns;
}

std::array<double, phase_names.size()> DevicePhases::total_ns() {
  auto total = moved_ns_;
  if (!marks_.empty()) marks_.back().event.synchronize();
  for (size_t i = 0; i + 1 < marks_.size(); ++i)
    if (marks_[i].phase >= 0)
      total[static_cast<size_t>(marks_[i].phase)] += marks_[i].event.elapsedTime(marks_[i + 1].event) * 1e6;
  return total;
}

double DevicePhases::all_ns() {
  if (marks_.empty()) return 0;
  marks_.back().event.synchronize();
  return marks_.front().event.elapsedTime(marks_.back().event) * 1e6;
}

}  // namespace dpbench
