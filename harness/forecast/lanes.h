// Simulates the computation and communication of a rank side by side; times are in seconds. A collective begins when
// its data is ready and all earlier collectives have ended. `dpbench plan` and `dpbench project` both use it.
#pragma once

#include <algorithm>

namespace dpbench {

class Lanes {
 public:
  // overlap: share of each collective's time that computation may overlap; the rest delays the step.
  explicit Lanes(double overlap = 1) : overlap_(overlap) {}

  void compute(double seconds) {
    now_ += seconds;
    computing_ += seconds;
  }
  // Begins a collective. Returns the time at which its overlapped share ends.
  double transfer(double seconds) {
    link_free_ = std::max(link_free_, now_) + overlap_ * seconds;
    delay_ += (1 - overlap_) * seconds;
    communication_ += seconds;
    return link_free_;
  }
  // Lets the simulated computation wait until the time `time`.
  void wait_until(double time) { now_ = std::max(now_, time); }
  void wait_for_all() { wait_until(link_free_); }

  double now() const { return now_; }
  double computing() const { return computing_; }
  double communication() const { return communication_; }
  double exposed() const { return now_ - computing_ + delay_; }  // communication that computation does not hide

 private:
  double overlap_;
  double now_ = 0, link_free_ = 0, computing_ = 0, communication_ = 0, delay_ = 0;
};

}  // namespace dpbench
