// Records the start and end of each collective on this rank, and charges the caller's time to the communication phase.
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
    int phase = -1;  // phase of the step; -1: called outside a phase or from another thread
    int64_t bytes = 0;
    Time start;
    std::atomic<Time> end = Time{};  // Time{} if not finished or unknown
  };

  // timed: record the end of a collective when its future completes. On a GPU that is only the launch.
  CollectiveWatch(c10::intrusive_ptr<c10d::Backend> inner, Phases& phases, bool timed)
      : ForwardingBackend(std::move(inner)), phases_(phases), timed_(timed) {}

  void start();
  // Stops recording. Returns the collectives since start() in order; valid until the next start().
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
