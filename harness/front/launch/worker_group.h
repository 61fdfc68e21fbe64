// A group of local rank processes. They start and end together; each has a socket for messages.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/launch/progress_page.h"
#include "harness/front/launch/rank_group.h"
#include "harness/front/process/oom_kills.h"
#include "harness/front/process/orphan_reaper.h"
#include "harness/front/process/rank_log.h"
#include "harness/front/process/scratch.h"
#include "harness/front/process/spawn.h"

namespace dpbench {

class World;

// The single rank that this process starts under an outside launcher.
struct Seat {
  int rank = 0, local_rank = 0, local_world = 1, world = 1;
  std::string directory = {};          // shared by the ranks of this host
  std::string store = {}, nonce = {};  // rendezvous of the ranks of all hosts
  std::string master = {};             // address of rank 0's host
};

struct WorkerSettings {
  std::string program;
  std::vector<std::string> plugins;
  std::vector<int> cpus;  // divided among the ranks
  double timeout_s = 30;
  std::filesystem::path logs;  // each group creates a folder in it
  World* world = nullptr;      // the ranks started by an outside launcher; null: this process starts all ranks
};

class WorkerGroup : public RankGroup {
 public:
  // Starts all ranks, or only the one of `seat`.
  WorkerGroup(const GroupSpec& spec, const WorkerSettings& settings, const Scratch& scratch,
              const std::optional<Seat>& seat = std::nullopt);
  ~WorkerGroup() override;
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  void send(const Json& message) override;
  bool wait(RankEvents& events, const Signals& signals, int milliseconds) override {
    return wait(events, signals, milliseconds, -1);
  }
  // Also returns early when the descriptor `extra` becomes readable.
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
  static void reap(Rank& rank);  // also kills the processes that the rank started
  void watch_states(RankEvents& events);
  bool all_dead() const;
  // Returns true if all ranks died within the time.
  bool await_deaths(double seconds, const Signals* signals);
  void signal_all(int signal);
  void kill_adopted();  // processes that ranks left behind in other process groups

  GroupSpec spec_;
  std::string mark_;
  OrphanReaper reaper_;
  std::filesystem::path logs_;
  ProgressPage page_;
  std::vector<Rank> ranks_;
  std::vector<RankState> states_;  // as last seen
};

// Protects a child of this process from kill_adopted().
void register_child(pid_t pid);

}  // namespace dpbench
