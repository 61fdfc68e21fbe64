// The processes of one group of ranks: started together, spoken to over a socket each, ended together.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/case_watch.h"
#include "harness/front/progress_page.h"
#include "harness/front/scratch.h"
#include "harness/front/signals.h"
#include "harness/front/spawn.h"

namespace dpbench {

struct WorkerSettings {
  std::string program;
  std::vector<std::string> plugins;
  std::vector<int> cpus;  // shared out among the ranks
  double timeout_s = 30;
  std::filesystem::path logs;  // a folder a group goes below it
};

struct GroupSpec {
  std::string name;  // unique in the run
  std::string backend, device;
  int processes = 1, threads = 1;
};

class WorkerGroup {
 public:
  WorkerGroup(const GroupSpec& spec, const WorkerSettings& settings, const Scratch& scratch);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  // To every rank.
  void send(const Json& message);
  // Hands the watch what has happened, waiting at most so long; true when a signal for us has come.
  bool wait(CaseWatch& watch, const Signals& signals, int milliseconds);
  // Asks them to quit and waits; whoever stays is killed. What ended badly, in words.
  std::vector<std::string> quit(const Signals& signals);
  // TERM, and KILL soon after (at once when another signal comes).
  void kill(const Signals& signals);

  // The end of what a rank printed, fit to be shown.
  std::string last_words(int rank) const;
  const GroupSpec& spec() const { return spec_; }

 private:
  struct Rank {
    Child child;
    Fd socket;
    std::string unread;
    std::filesystem::path log;
    bool dead = false;
    int status = 0;
  };

  void start(int rank, const WorkerSettings& settings, const Scratch& scratch);
  void read_socket(int rank, CaseWatch& watch);
  void note_death(int rank);
  void watch_states(CaseWatch& watch);
  void refuse_flood(int rank, CaseWatch& watch) const;
  bool all_dead() const;
  // True when all are dead in time.
  bool await_deaths(double seconds, const Signals* signals);
  void signal_all(int signal);
  void end_adopted();
  void tidy_logs() const;  // empty ones dropped, floods cut

  GroupSpec spec_;
  std::filesystem::path logs_;
  ProgressPage page_;
  std::vector<Rank> ranks_;
  std::vector<RankState> states_;  // as last seen
};

double monotonic_seconds();

}  // namespace dpbench
