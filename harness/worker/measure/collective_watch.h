// A process-group backend that forwards every collective to another backend and logs its start and end on this rank. On
// the CPU, the time inside the call counts as the step's communication phase if the calling thread runs the steps.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "harness/conform/evidence/forwarding_backend.h"
#include "strategies/api/phases.h"

namespace dpbench {

// The collectives of this rank, in order, over all groups of its mesh.
class CollectiveLog {
 public:
  using Time = Phases::Clock::time_point;
  struct Call {
    std::string op, axis;
    // Index of the phase of the step (forward, backward, ...) in which the collective was called; -1: outside a phase
    // or on another thread than the one that runs the steps.
    int phase = -1;
    int64_t bytes = 0;
    Time start;
    std::atomic<Time> end = Time{};  // end of the collective; Time{} if it has not finished or its end is unknown
  };

  // timed: log when a collective ends, which is when its future completes. False on a GPU, because there the future
  // completes as soon as the collective is launched.
  CollectiveLog(Phases& phases, bool timed) : phases_(phases), timed_(timed) {}

  void start();
  // Stops logging. Returns the collectives called since start(); the reference is valid until the next start().
  const std::deque<Call>& stop();

 private:
  friend class CollectiveWatch;
  bool on_steps_thread() const { return std::this_thread::get_id() == caller_; }
  Call& next();

  Phases& phases_;
  std::atomic<bool> timed_;
  std::mutex mutex_;
  std::atomic<bool> on_ = false;
  std::thread::id caller_;  // the thread that runs the steps
  std::deque<Call> calls_;
};

class CollectiveWatch : public ForwardingBackend {
 public:
  // axis: the mesh axis whose group uses this backend.
  CollectiveWatch(c10::intrusive_ptr<c10d::Backend> inner, std::string axis, CollectiveLog& log)
      : ForwardingBackend(std::move(inner)), axis_(std::move(axis)), log_(log) {}

 protected:
  WorkPtr around(Call call) override;

 private:
  void note_end(c10d::Work& work, CollectiveLog::Call& logged);

  std::string axis_;
  CollectiveLog& log_;
};

}  // namespace dpbench
