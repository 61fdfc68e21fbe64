// Names the mistake behind a wrong update of a parameter.
#pragma once

#include <cstdint>
#include <string>

#include "harness/conform/oracle/optimizer_replay.h"
#include "harness/conform/oracle/trial.h"

namespace dpbench {

// One rank's update of a parameter in a step.
struct Update {
  int rank;
  size_t p;  // index of the parameter
  int64_t step;
  const OptimizerReplay& start;  // the recomputed optimizer before the step
  const at::Tensor &before, &after;
};

// Returns the likely mistake behind a wrong update. expected: the parameter's value after an update with the reported
// gradient.
std::string update_mistake(const Trial& trial, const Update& update, const at::Tensor& expected);

}  // namespace dpbench
