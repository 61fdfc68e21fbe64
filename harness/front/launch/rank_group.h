// A group of ranks as whoever runs cases on it sees it, wherever its processes are; and what happens to them.
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
  std::string nonce = {};  // the group gives itself one, or has its launch's
};

// A collective that a rank has begun.
struct RankCall {
  int64_t number = 0;
  uint64_t hash = 0;  // of it and all before it
  std::string text = {};

  bool operator==(const RankCall&) const = default;
};

struct RankState {
  int64_t step = 0, beat = 0;
  bool stopped = false;              // by SIGSTOP or a debugger
  int64_t collectives = 0;           // that it has entered since it started; 0: not known
  std::vector<RankCall> calls = {};  // its latest, in no order; none where its backend compares them itself

  bool operator==(const RankState&) const = default;
};

class RankEvents {
 public:
  virtual ~RankEvents() = default;
  virtual void on_line(int rank, const std::string& line, double now) = 0;
  // It did what no rank may do, as in "printed more than 64 MiB".
  virtual void on_offence(int rank, const std::string& what, double now) = 0;
  // why: what is known besides the status, as in "killed by the control group's limit of 4096 bytes".
  virtual void on_death(int rank, int wait_status, double now, const std::string& why = {}) = 0;
  virtual void on_states(const std::vector<RankState>& states, double now) = 0;
};

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // To every rank.
  virtual void send(const Json& message) = 0;
  // Hands on what has happened, waiting at most so long; true when a signal for us has come.
  virtual bool wait(RankEvents& events, const Signals& signals, int milliseconds) = 0;
  // Asks them to quit and waits; whoever stays is killed. What ended badly, in words.
  virtual std::vector<std::string> quit(const Signals& signals) = 0;
  // TERM, and KILL soon after (at once when another signal comes).
  virtual void kill(const Signals& signals) = 0;
  // The end of what a rank printed, fit to be shown.
  virtual std::string last_words(int rank) const = 0;
  virtual const GroupSpec& spec() const = 0;
};

double monotonic_seconds();

}  // namespace dpbench
