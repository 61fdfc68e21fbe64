// A training run as all of its parts see it.
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
  std::vector<std::string> own;  // names of the parameters that each rank keeps for itself
  const Recipe& recipe;

  int64_t epochs() const { return options.epochs.value_or(recipe.epochs); }
  bool leads() const { return group.rank() == 0; }
};

}  // namespace dpbench
