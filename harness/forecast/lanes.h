// Simulates the computation and communication of a rank side by side; times are in seconds. A collective begins when
// its data is ready and all earlier collectives have ended.
#pragma once

#include <algorithm>

namespace dpbench {

class Lanes {
 public:
  void compute(double seconds) {
    now_ += seconds;
    computing_ += seconds;
  }
  // Begins a collective that computations may overlap. Returns the time at which it ends.
  double transfer(double seconds) {
    link_free_ = std::max(link_free_, now_) + seconds;
    communication_ += seconds;
    return link_free_;
  }
  // Lets the simulated computation wait until the time `time`.
  void wait_until(double time) { now_ = std::max(now_, time); }
  void wait_for_all() { wait_until(link_free_); }
  // Simulates a collective that no computation overlaps.
  void stop_for(double seconds) { wait_until(transfer(seconds)); }

  double now() const { return now_; }
  double computing() const { return computing_; }
  double communication() const { return communication_; }
  double exposed() const { return now_ - computing_; }  // time in which the computation waits for collectives

 private:
  double now_ = 0, link_free_ = 0, computing_ = 0, communication_ = 0;
};

}  // namespace dpbench
