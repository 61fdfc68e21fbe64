// Interfaces of a group of rank processes, local or remote, and of the events that its ranks cause.
#pragma once

#include <string>
#include <vector>

#include "harness/front/process/signals.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

struct GroupSpec : ProcessSettings {
  std::string name;        // name of the group, unique in the run
  std::string nonce = {};  // prefix of the group's rendezvous keys; random, or taken from the outside launcher
};

// A collective operation that a rank has entered.
struct RankCall {
  int64_t number = 0;
  uint64_t hash = 0;  // hash of this call and all earlier ones of the rank in this group
  std::string text = {};
  uint64_t group = 0;  // hash of the name of the group of ranks that make the call; 0: all ranks

  bool operator==(const RankCall&) const = default;
};

struct RankState {
  int64_t step = 0, beat = 0;  // see Progress
  bool stopped = false;        // the process is stopped by SIGSTOP or a debugger
  int64_t collectives = 0;     // number of collectives entered since the rank started; 0: none, or not known
  std::string place = {};      // part of the checks, or action in a step (Progress::place); empty: not known
  // The rank's latest collectives, unordered. Empty if the backend itself detects mismatched collectives.
  std::vector<RankCall> calls = {};

  bool operator==(const RankState&) const = default;
};

class RankEvents {
 public:
  virtual ~RankEvents() = default;
  virtual void on_line(int rank, const std::string& line, double now) = 0;
  // Called when a rank violates a limit or the protocol, for example "printed more than 64 MiB".
  virtual void on_offence(int rank, const std::string& offence, double now) = 0;
  // Called when a rank has died. `why` explains the exit status, for example "killed by the control group's limit of
  // 4096 bytes"; empty if nothing more is known.
  virtual void on_death(int rank, int wait_status, double now, const std::string& why = {}) = 0;
  virtual void on_states(const std::vector<RankState>& states, double now) = 0;
};

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // Sends a message to every rank.
  virtual void send(const Json& message) = 0;
  // Waits for rank events for at most `milliseconds` and passes them to `events`. Returns true if a signal to this
  // process is pending.
  virtual bool wait(RankEvents& events, const Signals& signals, int milliseconds) = 0;
  // Asks all ranks to quit and kills those that do not. Returns an error message for each problem.
  virtual std::vector<std::string> quit(const Signals& signals) = 0;
  // Sends SIGTERM to all ranks, then SIGKILL after a short wait. Another signal to this process cuts the wait short.
  virtual void kill(const Signals& signals) = 0;
  // Returns the last lines of a rank's log, safe to print.
  virtual std::string log_tail(int rank) const = 0;
  virtual const GroupSpec& spec() const = 0;
};

double monotonic_seconds();

}  // namespace dpbench
