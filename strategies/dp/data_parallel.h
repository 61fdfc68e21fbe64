// dp, with what its replicas' passes are recorded by.
#pragma once

#include <memory>

#include "strategies/api/strategy.h"
#include "strategies/graphs/recorded_pass.h"

namespace dpbench::dp {

// recorder: called once for each device; null where nothing is recorded.
std::unique_ptr<Strategy> make_data_parallel(const Setup& setup, const MakeRecorder& recorder);

}  // namespace dpbench::dp
