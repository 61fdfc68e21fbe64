// Runs one case after another on groups of workers, starting a group when there is none that fits.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/front/case_watch.h"
#include "harness/front/worker_group.h"

namespace dpbench {

// What the workers of a case must have been started for; cases alike in it share a group.
struct GroupKey {
  std::string backend, device;
  int processes = 1, threads = 1;
  auto operator<=>(const GroupKey&) const = default;
};

GroupKey group_key(const CaseSpec& spec);

class Launcher {
 public:
  using Say = std::function<void(const std::string&)>;

  Launcher(WorkerSettings settings, const Scratch& scratch, const Signals& signals, Say say);

  // command: {"do":..} without the case. answer: the event that ends it well. hear: what comes before it.
  CaseOutcome run(const CaseSpec& spec, Json command, const std::string& answer, const CaseWatch::Hear& hear = {});
  // The next case gets fresh processes. What ended badly, in words.
  std::vector<std::string> end_group();

 private:
  void open_group(const GroupKey& key);
  CaseOutcome watch(CaseWatch& watch);
  void explain(CaseOutcome& outcome) const;
  void drop_group();

  WorkerSettings settings_;
  const Scratch& scratch_;
  const Signals& signals_;
  Say say_;
  std::unique_ptr<RankGroup> group_;
  GroupKey key_;
  bool ready_ = false;
  int groups_ = 0;
};

}  // namespace dpbench
