// One device whose steps are recorded: the first of a shape runs as it is, the second is recorded, from then on it is
// replayed.
#pragma once

#include <memory>

#include "strategies/api/strategy.h"
#include "strategies/graphs/step_graph.h"

namespace dpbench {

std::unique_ptr<Strategy> make_recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32 = false);

}  // namespace dpbench
