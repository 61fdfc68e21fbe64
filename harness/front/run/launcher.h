// Runs cases one after another on groups of workers. Starts a new group if the current one does not fit the case.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/front/launch/case_watch.h"
#include "harness/front/launch/worker_group.h"

namespace dpbench {

// The settings that workers are started with. Cases with the same key share a group.
struct GroupKey {
  std::string backend;
  Device device = Device::cpu;
  int processes = 1, threads = 1;
  auto operator<=>(const GroupKey&) const = default;
};

GroupKey group_key(const CaseSpec& spec);

// Runs a case: the launcher, or a fake in tests.
class CaseRunner {
 public:
  virtual ~CaseRunner() = default;
  // `command` is {"do":..} without the case.
  virtual CaseOutcome run(const CaseSpec& spec, const Json& command) = 0;
  // Ends the group, so the next case gets fresh processes. Returns a message for each problem.
  virtual std::vector<std::string> end_group() = 0;
  virtual int pending_signal() = 0;
};

// The reason that a loop over cases ended early.
struct LoopEnding {
  int signal = 0;       // interrupted by this signal
  std::string usage{};  // a usage error that a worker reported
};

class Launcher : public CaseRunner {
 public:
  using Say = std::function<void(const std::string&)>;

  // `answer` is the event that completes a case. Without a log folder in the settings, logs go to the private directory
  // and are removed with it.
  Launcher(WorkerSettings settings, const Signals& signals, Event answer, Say say);

  CaseOutcome run(const CaseSpec& spec, const Json& command) override { return run(spec, command, {}); }
  // `handler` receives the events before the answer.
  CaseOutcome run(const CaseSpec& spec, Json command, const CaseWatch::EventHandler& handler);
  std::vector<std::string> end_group() override;
  int pending_signal() override { return signals_.take(); }

 private:
  void open_group(const GroupKey& key);
  CaseOutcome watch(CaseWatch& watch);
  void explain(CaseOutcome& outcome) const;
  void drop_group();

  const Scratch scratch_;
  WorkerSettings settings_;
  const Signals& signals_;
  Event answer_;
  Say log_;
  std::unique_ptr<RankGroup> group_;
  GroupKey key_;
  bool ready_ = false;
  int groups_ = 0;
};

}  // namespace dpbench
