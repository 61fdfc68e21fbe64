// Writes down when each collective of a strategy began and ended on this rank, and charges the time its caller spent in
// it.
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
    int phase = -1;  // of the step; -1: outside of it
    int64_t bytes = 0;
    Time start;
    std::atomic<Time> end = Time{};  // the epoch: not yet, or unknown
  };

  // timed: collectives end when their future does. (On a GPU that is when they are launched.)
  CollectiveWatch(c10::intrusive_ptr<c10d::Backend> inner, Phases& phases, bool timed)
      : ForwardingBackend(std::move(inner)), phases_(phases), timed_(timed) {}

  void start();
  // What began since start(), in order; valid until the next start().
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
  std::thread::id caller_;  // of the steps
  std::deque<Seen> seen_;
};

}  // namespace dpbench
