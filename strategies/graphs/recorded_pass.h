// A replica's pass, recorded as two graphs, and the recorders of all replicas.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "strategies/graphs/step_graph.h"
#include "strategies/parts/pass.h"

namespace dpbench::dp {

// In the first step of a shape they run as they are, in the second they are recorded as two graphs, from then on
// replayed.
std::unique_ptr<Pass> recorded_pass(const Replica& replica, StepRecorder& recorder);

using MakeRecorder = std::function<std::unique_ptr<StepRecorder>(at::Device device)>;

// A recorder for each device, which its replicas share.
class PassRecorders {
 public:
  // threads: one for each device, from now on on the recorders' streams, as the calling thread is. Otherwise work that
  // one thread gives a device would not come after another's.
  PassRecorders(const std::vector<at::Device>& devices, const MakeRecorder& make, ReplicaThreads& threads);

  std::unique_ptr<Pass> pass_of(const Replica& replica) {
    return recorded_pass(replica, *recorders_.at(replica.device().index()));
  }

 private:
  std::map<at::DeviceIndex, std::unique_ptr<StepRecorder>> recorders_;
};

}  // namespace dpbench::dp
