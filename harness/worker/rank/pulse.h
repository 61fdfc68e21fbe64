// This rank's heartbeat: counters in a memory page shared with the front (the dpbench process), which reports ranks
// that stop making progress.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "harness/report/record/protocol.h"
#include "strategies/api/backend.h"
#include "strategies/api/phases.h"

namespace dpbench {

class Pulse {
 public:
  // Opens the file with the heartbeat counters of `world` ranks. With an empty file name, heartbeats are discarded.
  Pulse(const std::string& file, int rank, int world = 1);
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

  // Starts a case: resets the rank's step counter and clears the text about the running check or action.
  void begin() { place(""); }
  // Publishes the part of the checks that runs, e.g. "step 1 of scenario even", for the message of a crash or hang;
  // empty after the checks. Resets the step counter: to Progress::in_checks, or to 0 after the checks.
  void place(std::string_view text) {
    progress_->step.store(text.empty() ? 0 : Progress::in_checks, std::memory_order_relaxed);
    store_text(progress_->place, text), beat();
  }
  // Publishes the actions that a strategy names in its steps.
  void publish_actions(Phases& phases) {
    phases.publish_actions([this](std::string_view action) { store_text(progress_->place, action); });
  }
  void step() { progress_->step.store(progress_->step.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  // Polls `collectives`, the number of collectives entered, from a separate thread and sends a heartbeat when it has
  // grown. By this number, the front distinguishes a rank that waits in a collective from one that never entered it. A
  // growing `computed_ns`, the CPU time spent on the expected results of checks, sends heartbeats too. `collectives`
  // may be empty.
  void follow(std::function<uint64_t()> collectives, std::function<int64_t()> computed_ns);
  void beat() { progress_->beat.fetch_add(1, std::memory_order_relaxed); }

  // Logs the start of a collective in the shared call log. Thread-safe.
  void note_call(const StartedCall& call);
  // Returns the number and hash of the collectives since the last forget_calls(), by process group. A group's key is
  // the hash of its name; 0: all ranks. The number and the hash must be equal on all ranks of the group.
  std::map<uint64_t, CallDigest> calls() const;
  void forget_calls();

 private:
  void* mapping_ = nullptr;
  size_t bytes_ = 0;
  Progress unused_progress_;
  CallLog unused_log_;
  Progress* progress_ = &unused_progress_;
  CallLog* log_ = &unused_log_;
  mutable std::mutex calls_mutex_;
  std::map<uint64_t, CallDigest> calls_ = {{0, {}}};
  size_t logged_ = 0;  // number of collective calls that this process has logged
  // this member is declared last, so its thread is joined before the members it writes to are destroyed
  std::jthread follower_;
};

}  // namespace dpbench
