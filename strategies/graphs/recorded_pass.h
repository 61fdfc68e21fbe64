// The forward and backward pass of a replica, recorded as two CUDA graphs. A StepRecorder per device records them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "strategies/graphs/step_graph.h"
#include "strategies/parts/pass.h"

namespace dpbench::dp {

// Returns a pass that runs eagerly in the first step of each batch shape, is recorded as CUDA graphs in the second, and
// is replayed from then on.
std::unique_ptr<Pass> recorded_pass(const Replica& replica, StepRecorder& recorder);

using MakeRecorder = std::function<std::unique_ptr<StepRecorder>(at::Device device)>;

// One recorder of CUDA graphs per device, shared by the device's replicas.
class PassRecorders {
 public:
  // Makes a recorder for each device. threads: one per entry of `devices`, beginning with the calling thread. The
  // constructor sets each thread's current stream to its recorder's stream, so that work of different threads on a
  // device stays in order.
  PassRecorders(const std::vector<at::Device>& devices, const MakeRecorder& make, ReplicaThreads& threads);

  std::unique_ptr<Pass> pass_of(const Replica& replica) {
    return recorded_pass(replica, *recorders_.at(replica.device().index()));
  }

 private:
  std::map<at::DeviceIndex, std::unique_ptr<StepRecorder>> recorders_;
};

}  // namespace dpbench::dp
