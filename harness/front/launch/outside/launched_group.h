// A group of ranks under an outside launcher (torchrun, mpirun, srun). This process runs rank 0's worker. The other
// ranks' workers are run by agents, the dpbench processes of those ranks.
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

  ~LaunchedGroup() override { --world_.open_groups; }
  LaunchedGroup(const LaunchedGroup&) = delete;
  LaunchedGroup& operator=(const LaunchedGroup&) = delete;
  void send(const Json& message) override;
  bool wait(RankEvents& events, const Signals& signals, int milliseconds) override;
  std::vector<std::string> quit(const Signals& signals) override;
  void kill(const Signals& signals) override;
  std::string log_tail(int rank) const override;
  const GroupSpec& spec() const override { return local_.spec(); }

 private:
  class LocalEvents;  // forwards the events of rank 0's worker, which this process runs

  void handle(const Json& message, RankEvents& events);
  std::vector<std::string> await_closed(double seconds);

  World& world_;
  WorkerGroup local_;
  std::vector<RankState> states_;
  std::map<int, std::string> log_tails_;
  std::vector<bool> closed_;
  std::set<int> gone_;  // ranks that have already been reported as gone
  bool lost_ = false;
};

// Converts the launcher's placement of a rank to a Seat (rank numbers, rendezvous and directory for its worker).
Seat seat_of(const Placement& placement, const std::string& directory);

}  // namespace dpbench
