// Interface to a group of ranks, local or remote, and to the events of its ranks.
#pragma once

#include <string>
#include <vector>

#include "harness/front/process/signals.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

struct GroupSpec {
  std::string name;  // unique in the run
  std::string backend;
  Device device = Device::cpu;
  int processes = 1, threads = 1;
  std::string nonce = {};  // set by the group: a random one, or the one of the outside launcher
};

// A collective that a rank has entered.
struct RankCall {
  int64_t number = 0;
  uint64_t hash = 0;  // of this call and all earlier ones
  std::string text = {};

  bool operator==(const RankCall&) const = default;
};

struct RankState {
  int64_t step = 0, beat = 0;
  bool stopped = false;              // by SIGSTOP or a debugger
  int64_t collectives = 0;           // entered since the rank started; 0: not known
  std::vector<RankCall> calls = {};  // the latest ones, unordered; empty if the backend itself detects mismatches

  bool operator==(const RankState&) const = default;
};

class RankEvents {
 public:
  virtual ~RankEvents() = default;
  virtual void on_line(int rank, const std::string& line, double now) = 0;
  // A rank misbehaved, for example "printed more than 64 MiB".
  virtual void on_offence(int rank, const std::string& offence, double now) = 0;
  // `why` adds to the status, for example "killed by the control group's limit of 4096 bytes".
  virtual void on_death(int rank, int wait_status, double now, const std::string& why = {}) = 0;
  virtual void on_states(const std::vector<RankState>& states, double now) = 0;
};

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // Sends to every rank.
  virtual void send(const Json& message) = 0;
  // Waits for events at most this long and delivers them. Returns true if this process has a pending signal.
  virtual bool wait(RankEvents& events, const Signals& signals, int milliseconds) = 0;
  // Asks the ranks to quit and kills those that do not. Returns a message for each problem.
  virtual std::vector<std::string> quit(const Signals& signals) = 0;
  // Sends TERM, then KILL after a short wait, which another signal to this process cuts short.
  virtual void kill(const Signals& signals) = 0;
  // Returns the end of a rank's output, safe to print.
  virtual std::string log_tail(int rank) const = 0;
  virtual const GroupSpec& spec() const = 0;
};

double monotonic_seconds();

}  // namespace dpbench
