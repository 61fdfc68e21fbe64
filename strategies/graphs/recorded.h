// A single-device strategy that records its steps as CUDA graphs. The first step of each batch shape runs eagerly, the
// second is recorded, later ones are replayed.
#pragma once

#include <memory>

#include "strategies/api/strategy.h"
#include "strategies/graphs/step_graph.h"

namespace dpbench {

std::unique_ptr<Strategy> make_recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32 = false);

}  // namespace dpbench
