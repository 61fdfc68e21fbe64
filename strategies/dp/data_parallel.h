// Makes the strategy dp, with or without CUDA graphs.
#pragma once

#include <memory>

#include "strategies/api/strategy.h"
#include "strategies/graphs/recorded_pass.h"

namespace dpbench::dp {

// recorder: called once per device to create its recorder; null if passes are not recorded as CUDA graphs.
std::unique_ptr<Strategy> make_data_parallel(const Setup& setup, const MakeRecorder& recorder);

}  // namespace dpbench::dp
