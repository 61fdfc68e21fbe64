// Settings of a training run and the objects shared by all of its components.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/case.h"
#include "harness/report/record/training.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"
#include "strategies/api/strategy.h"

namespace dpbench {

struct TrainJob {
  const CaseSpec& spec;
  const TrainOptions& options;
  const Group& group;
  Pulse& pulse;
  const StrategyInfo& info;
  std::vector<std::string> own;  // names of the parameters that are not synchronized between ranks
  const Recipe& recipe;

  int64_t epochs() const { return options.epochs.value_or(recipe.epochs); }
  bool is_rank0() const { return group.rank() == 0; }
};

}  // namespace dpbench
