// A process-group backend that forwards every collective to another backend and records its start and end on this rank.
// The time in which the calling thread is inside the call counts as the step's communication phase.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "harness/conform/evidence/forwarding_backend.h"
#include "strategies/api/phases.h"

namespace dpbench {

class CollectiveWatch : public ForwardingBackend {
 public:
  using Time = Phases::Clock::time_point;
  struct Seen {
    std::string op;
    // Index of the phase of the step (forward, backward, ...) in which the collective was called; -1: outside a phase
    // or on another thread than the one that runs the steps.
    int phase = -1;
    int64_t bytes = 0;
    Time start;
    std::atomic<Time> end = Time{};  // end of the collective; Time{} if it has not finished or its end is unknown
  };

  // timed: record when a collective ends, which is when its future completes. False on a GPU, because there the future
  // completes as soon as the collective is launched.
  CollectiveWatch(c10::intrusive_ptr<c10d::Backend> inner, Phases& phases, bool timed)
      : ForwardingBackend(std::move(inner)), phases_(phases), timed_(timed) {}

  void start();
  // Stops recording. Returns the collectives called since start(), in order; the reference is valid until the next
  // start().
  const std::deque<Seen>& stop();

 protected:
  WorkPtr around(Call call) override;

 private:
  Seen& next(const Call& call);
  void note_end(c10d::Work& work, Seen& seen);

  Phases& phases_;
  std::atomic<bool> timed_;
  std::mutex mutex_;
  std::atomic<bool> on_ = false;
  std::thread::id caller_;  // the thread that runs the steps
  std::deque<Seen> seen_;
};

}  // namespace dpbench
