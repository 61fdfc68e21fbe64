// Runs cases one after another on groups of worker processes. Starts a new group if the current group does not fit the
// case.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/front/launch/case_watch.h"
#include "harness/front/launch/worker_group.h"

namespace dpbench {

// Interface that runs a single case. Launcher implements it; tests use a fake.
class CaseRunner {
 public:
  virtual ~CaseRunner() = default;
  // Runs a case and returns its outcome. `command` is the message {"do":..} to the workers, without the case.
  virtual CaseOutcome run(const CaseSpec& spec, const Json& command) = 0;
  // Ends the group of worker processes, so that the next case gets new ones. Returns an error message for each problem.
  virtual std::vector<std::string> end_group() = 0;
  // Called at the end of each launch. Ends worker processes that end_group() keeps, such as those that run
  // PairedRunner's references. Returns an error message for each problem.
  virtual std::vector<std::string> end_launch() { return {}; }
  virtual int pending_signal() = 0;
};

// The reason that a loop over cases ended early; default values mean that it completed.
struct LoopEnding {
  int signal = 0;       // the signal that interrupted the loop; 0: none
  std::string usage{};  // a usage error that a worker reported; empty: none
};

class Launcher : public CaseRunner {
 public:
  using Say = std::function<void(const std::string&)>;

  // `answer` is the type of event with which a rank reports that it has completed a case. If the settings name no log
  // directory, logs go to this Launcher's scratch directory and are removed with it.
  Launcher(WorkerSettings settings, const Signals& signals, Event answer, Say say);

  CaseOutcome run(const CaseSpec& spec, const Json& command) override { return run(spec, command, {}); }
  // Runs a case and returns its outcome. `handler` receives the progress events and log lines of rank 0 while the case
  // runs.
  CaseOutcome run(const CaseSpec& spec, Json command, const CaseWatch::EventHandler& handler);
  std::vector<std::string> end_group() override;
  int pending_signal() override { return signals_.take(); }
  // Sets a function that is called with the case's id and its state, such as "checking: 4 of 8", when the state
  // changes.
  void on_checking(std::function<void(const std::string& case_id, const std::string& state)> tell) {
    tell_ = std::move(tell);
  }

 private:
  std::vector<std::string> where_ranks_are(const CaseSpec& spec) const;
  void open_group(const ProcessSettings& key);
  CaseOutcome watch(const std::string& case_id, CaseWatch& watch);
  void explain(CaseOutcome& outcome) const;
  void drop_group();

  const Scratch scratch_;
  WorkerSettings settings_;
  const Signals& signals_;
  Event answer_;
  Say log_;
  std::function<void(const std::string&, const std::string&)> tell_;
  std::unique_ptr<RankGroup> group_;
  ProcessSettings key_;
  bool ready_ = false;
  int groups_ = 0;
};

}  // namespace dpbench
