// What a strategy can be put through, and what it must be told of a model first.
#pragma once

#include <optional>
#include <string>

#include "harness/conform/scenario/unused.h"

namespace dpbench {

// Why this scenario makes no sense for the strategy; twin: the workload's smooth one.
std::optional<std::string> not_possible(const Scenario& scenario, const StrategyInfo& strategy,
                                        const Workload& workload, const Workload& twin);

// A model with parameters that some ranks do not use needs a strategy that was told so.
struct UnusedPlan {
  UnusedPattern pattern = {};   // what it is not told, and may refuse by name
  ParamValues params = {};      // what tells it
  std::string impossible = {};  // why nothing can be run with such a model
};

// registered: bench.strategy without what its parameters' values change; probe: a model made for the purpose.
UnusedPlan plan_for_unused(const Bench& bench, const StrategyInfo& registered, bool probe);

}  // namespace dpbench
