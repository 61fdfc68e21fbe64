// The factory of dp, with the recorder as an argument.
#pragma once

#include <memory>

#include "strategies/api/strategy.h"
#include "strategies/graphs/recorded_pass.h"

namespace dpbench::dp {

// recorder: called once per device; null if passes are not recorded.
std::unique_ptr<Strategy> make_data_parallel(const Setup& setup, const MakeRecorder& recorder);

}  // namespace dpbench::dp
