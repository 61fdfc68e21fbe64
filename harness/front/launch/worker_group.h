// A group of rank processes (workers) on this host. They start and end together; each has a socket for messages.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/launch/progress_page.h"
#include "harness/front/launch/python_host.h"
#include "harness/front/launch/rank_group.h"
#include "harness/front/process/oom_kills.h"
#include "harness/front/process/orphan_reaper.h"
#include "harness/front/process/rank_log.h"
#include "harness/front/process/scratch.h"
#include "harness/front/process/spawn.h"

namespace dpbench {

class World;

// The position of a rank in the world, with its rendezvous. Under an outside launcher, this process starts only that
// rank.
struct Seat {
  int rank = 0, local_rank = 0, local_world = 1, world = 1;
  std::string directory = {};          // private directory shared by the ranks of this host
  std::string store = {}, nonce = {};  // rendezvous store: address, prefix of keys; empty if dpbench starts the ranks
  std::string master = {};             // address of rank 0's host; empty if dpbench starts the ranks
};

struct WorkerSettings {
  std::string program;
  PythonHost python = {};  // interpreter that runs the ranks of Python strategies and workloads
  std::vector<std::string> plugins;
  std::vector<int> cpus;  // cores to divide among the ranks
  double timeout_s = 30;
  std::filesystem::path logs;  // directory in which each group creates its log directory
  World* world = nullptr;      // connection to the ranks of an outside launcher; null: this process starts all ranks
  // Function that receives each line that a rank prints, prefixed with the rank's number if there are several. If it is
  // empty, lines are only logged.
  std::function<void(const std::string& line)> output = {};
};

class WorkerGroup : public RankGroup {
 public:
  // Starts all ranks of the group, or only the rank of `seat` if it is given.
  WorkerGroup(const GroupSpec& spec, const WorkerSettings& settings, const Scratch& scratch,
              const std::optional<Seat>& seat = std::nullopt);
  ~WorkerGroup() override;
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  void send(const Json& message) override;
  bool wait(RankEvents& events, const Signals& signals, int milliseconds) override {
    return wait(events, signals, milliseconds, -1);
  }
  // Waits for rank events as RankGroup::wait() does, but also returns when the descriptor `extra` becomes readable.
  bool wait(RankEvents& events, const Signals& signals, int milliseconds, int extra);
  std::vector<std::string> quit(const Signals& signals) override;
  void kill(const Signals& signals) override;
  std::string log_tail(int rank) const override;
  const GroupSpec& spec() const override { return spec_; }

 private:
  struct Rank {
    int number = 0;
    Child child;
    Fd socket;
    std::string unread;
    RankLog log;
    OomKills oom_kills;
    bool dead = false;
    int status = 0;
  };

  void start(Rank& rank, const WorkerSettings& settings, const Scratch& scratch, const std::optional<Seat>& given);
  static void read_socket(Rank& rank, RankEvents& events);
  static void reap(Rank& rank);  // kills the remaining processes of the dead rank's group and calls waitpid()
  void watch_states(RankEvents& events);
  bool all_dead() const;
  // Waits until all ranks are dead, but at most `seconds` and, with `signals`, only until a signal to this process
  // arrives. Returns true if all are dead.
  bool await_deaths(double seconds, const Signals* signals);
  void signal_all(int signal);
  void pass_output_on();
  void kill_adopted();  // kills processes that dead ranks left behind, even in other process groups

  GroupSpec spec_;
  std::function<void(const std::string&)> output_;
  std::string mark_;
  OrphanReaper reaper_;
  std::filesystem::path logs_;
  ProgressPage page_;
  std::vector<Rank> ranks_;
  std::vector<RankState> states_;  // the ranks' states as last read from the progress page
};

// Registers a child process that is not a rank, so that no group kills it as an orphan of a dead rank.
void register_child(pid_t pid);

}  // namespace dpbench
