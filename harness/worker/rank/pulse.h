// This rank's sign of life: a page shared with the front, which names whoever stops moving.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "harness/report/record/protocol.h"

namespace dpbench {

class Pulse {
 public:
  // No file: the signs go nowhere. world: how many ranks have a place in it.
  Pulse(const std::string& file, int rank, int world = 1);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // A case begins: its steps are counted from 0.
  void begin() { mine_->step.store(0, std::memory_order_relaxed), beat(); }
  void step() { mine_->step.store(mine_->step.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  // Beats whenever this number has grown, from a thread of its own: so a rank that waits in a collective is told from
  // the one that never entered it.
  void follow(std::function<uint64_t()> collectives);
  void beat() { mine_->beat.fetch_add(1, std::memory_order_relaxed); }

  // A collective begins. From any thread.
  void note_call(uint64_t number, std::string_view call);
  // Those noted since the last forget_calls(): the same on all ranks.
  struct Calls {
    int64_t count = 0;
    uint64_t hash = 0;
  };
  Calls calls() const;
  void forget_calls();

 private:
  void* mapping_ = nullptr;
  size_t bytes_ = 0;
  Progress nowhere_;
  CallLog log_nowhere_;
  Progress* mine_ = &nowhere_;
  CallLog* log_ = &log_nowhere_;
  mutable std::mutex calls_mutex_;
  Calls calls_;
  std::jthread follower_;  // last: it ends before what it writes to goes
};

}  // namespace dpbench
