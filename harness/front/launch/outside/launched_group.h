// A group whose ranks an outside launcher's processes run: rank 0's worker is ours, the others belong to their agents.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/front/launch/outside/world.h"
#include "harness/front/launch/worker_group.h"

namespace dpbench {

class LaunchedGroup : public RankGroup {
 public:
  LaunchedGroup(const GroupSpec& spec, const WorkerSettings& settings, const Scratch& scratch);

  void send(const Json& message) override;
  bool wait(RankEvents& events, const Signals& signals, int milliseconds) override;
  std::vector<std::string> quit(const Signals& signals) override;
  void kill(const Signals& signals) override;
  std::string last_words(int rank) const override;
  const GroupSpec& spec() const override { return local_.spec(); }

 private:
  class Local;  // hands the events of our own worker on

  void hear(const Json& message, RankEvents& events);
  void close(const std::string& how);
  std::vector<std::string> await_closing(double seconds);

  World& world_;
  WorkerGroup local_;
  std::vector<RankState> states_;
  std::map<int, std::string> words_;
  std::vector<bool> closed_;
  std::set<int> gone_;  // said to the events already
  bool lost_ = false;
};

// The seat of a rank of this world.
Seat seat_of(const Placement& placement, const std::string& directory);

}  // namespace dpbench
