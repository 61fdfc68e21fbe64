// The processes of one group of ranks: started together, spoken to over a socket each, ended together.
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

// The one rank of a group that this process starts, when a launcher has started us as one of several.
struct Seat {
  int rank = 0, local_rank = 0, local_world = 1, world = 1;
  std::string directory = {};          // shared by the ranks of this host
  std::string store = {}, nonce = {};  // where the ranks of all hosts meet
  std::string master = {};             // an address of rank 0's host
};

struct WorkerSettings {
  std::string program;
  std::vector<std::string> plugins;
  std::vector<int> cpus;  // shared out among the ranks
  double timeout_s = 30;
  std::filesystem::path logs;  // a folder a group goes below it
  World* world = nullptr;      // the ranks that an outside launcher has started; null: all ranks are ours to start
};

class WorkerGroup : public RankGroup {
 public:
  // seat: start this rank alone.
  WorkerGroup(const GroupSpec& spec, const WorkerSettings& settings, const Scratch& scratch,
              const std::optional<Seat>& seat = std::nullopt);
  ~WorkerGroup() override;
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  void send(const Json& message) override;
  bool wait(RankEvents& events, const Signals& signals, int milliseconds) override {
    return wait(events, signals, milliseconds, -1);
  }
  // Returns early when there is something to read from `also`.
  bool wait(RankEvents& events, const Signals& signals, int milliseconds, int also);
  std::vector<std::string> quit(const Signals& signals) override;
  void kill(const Signals& signals) override;
  std::string last_words(int rank) const override;
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
  static void note_death(Rank& rank);
  void watch_states(RankEvents& events);
  bool all_dead() const;
  // True when all are dead in time.
  bool await_deaths(double seconds, const Signals* signals);
  void signal_all(int signal);
  void end_adopted();

  GroupSpec spec_;
  std::string mark_;
  OrphanReaper reaper_;
  std::filesystem::path logs_;
  ProgressPage page_;
  std::vector<Rank> ranks_;
  std::vector<RankState> states_;  // as last seen
};

// A child of ours that is no rank: the end of a group leaves it alone.
void keep_child(pid_t pid);

}  // namespace dpbench
