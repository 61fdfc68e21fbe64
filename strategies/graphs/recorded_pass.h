// A replica's pass recorded as two graphs, and the recorders of all replicas.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "strategies/graphs/step_graph.h"
#include "strategies/parts/pass.h"

namespace dpbench::dp {

// Returns a pass that runs eagerly in the first step of a shape, is recorded as two graphs in the second, and is
// replayed from then on.
std::unique_ptr<Pass> recorded_pass(const Replica& replica, StepRecorder& recorder);

using MakeRecorder = std::function<std::unique_ptr<StepRecorder>(at::Device device)>;

// One recorder per device, shared by the device's replicas.
class PassRecorders {
 public:
  // threads: one per device. Moves them to the recorders' streams, as the calling thread, so that work from different
  // threads stays ordered.
  PassRecorders(const std::vector<at::Device>& devices, const MakeRecorder& make, ReplicaThreads& threads);

  std::unique_ptr<Pass> pass_of(const Replica& replica) {
    return recorded_pass(replica, *recorders_.at(replica.device().index()));
  }

 private:
  std::map<at::DeviceIndex, std::unique_ptr<StepRecorder>> recorders_;
};

}  // namespace dpbench::dp
