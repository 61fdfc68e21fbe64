// dp, with what its replicas' passes are recorded by.
#pragma once

#include <functional>

#include "strategies/comm/step_graph.h"
#include "strategies/strategy.h"

namespace dpbench::dp {

using MakeRecorder = std::function<std::unique_ptr<StepRecorder>(at::Device device)>;

// recorder: called once for each device; null where nothing is recorded.
std::unique_ptr<Strategy> make_data_parallel(const Setup& setup, const MakeRecorder& recorder);

}  // namespace dpbench::dp
