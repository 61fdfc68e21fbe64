// A group of ranks under an outside launcher. This process runs rank 0's worker; agents run the others.
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
  std::string log_tail(int rank) const override;
  const GroupSpec& spec() const override { return local_.spec(); }

 private:
  class LocalEvents;  // forwards the events of the local worker

  void handle(const Json& message, RankEvents& events);
  std::vector<std::string> await_closed(double seconds);

  World& world_;
  WorkerGroup local_;
  std::vector<RankState> states_;
  std::map<int, std::string> log_tails_;
  std::vector<bool> closed_;
  std::set<int> gone_;  // already reported
  bool lost_ = false;
};

// Returns the seat of the rank at `placement`.
Seat seat_of(const Placement& placement, const std::string& directory);

}  // namespace dpbench
