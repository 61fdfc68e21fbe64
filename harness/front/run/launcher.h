// Runs one case after another on groups of workers, starting a group when there is none that fits.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/front/launch/case_watch.h"
#include "harness/front/launch/worker_group.h"

namespace dpbench {

// What the workers of a case must have been started for; cases alike in it share a group.
struct GroupKey {
  std::string backend;
  Device device = Device::cpu;
  int processes = 1, threads = 1;
  auto operator<=>(const GroupKey&) const = default;
};

GroupKey group_key(const CaseSpec& spec);

// Who runs a case: the launcher, or a test's stand-in.
class CaseRunner {
 public:
  virtual ~CaseRunner() = default;
  // command: {"do":..} without the case.
  virtual CaseOutcome run(const CaseSpec& spec, const Json& command) = 0;
  // The next case gets fresh processes. What ended badly, in words.
  virtual std::vector<std::string> end_group() = 0;
  virtual int pending_signal() = 0;
};

// How a loop over cases ended early.
struct LoopEnding {
  int signal = 0;       // by this signal
  std::string usage{};  // a worker found the user's mistake: nothing more was run
};

class Launcher : public CaseRunner {
 public:
  using Say = std::function<void(const std::string&)>;

  // answer: the event that ends a case well. Without a folder for logs they go with the private directory.
  Launcher(WorkerSettings settings, const Signals& signals, Event answer, Say say);

  CaseOutcome run(const CaseSpec& spec, const Json& command) override { return run(spec, command, {}); }
  // hear: what comes before the answer.
  CaseOutcome run(const CaseSpec& spec, Json command, const CaseWatch::Hear& hear);
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
  Say say_;
  std::unique_ptr<RankGroup> group_;
  GroupKey key_;
  bool ready_ = false;
  int groups_ = 0;
};

}  // namespace dpbench
