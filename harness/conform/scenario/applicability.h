// Decides which scenarios apply to a strategy and which parameters a model requires.
#pragma once

#include <optional>
#include <string>

#include "harness/conform/scenario/unused.h"

namespace dpbench {

// Returns the reason why a scenario does not apply to the strategy; nullopt if it applies. twin: the workload's smooth
// variant.
std::optional<std::string> why_not_applicable(const Scenario& scenario, const StrategyInfo& strategy,
                                              const Workload& workload, const Workload& twin);

// How to run a model with parameters that some ranks do not use.
struct UnusedPlan {
  UnusedPattern pattern = {};     // unused parameters that the strategy may refuse with an error naming them
  ParamValues params = {};        // strategy parameters that allow unused model parameters
  std::string not_runnable = {};  // reason why the strategy cannot run such a model; empty if it can
};

// registered: the strategy's registered properties, not adjusted to parameter values. probe: the model is a probe, so
// all of its steps are examined.
UnusedPlan plan_for_unused(const Bench& bench, const StrategyInfo& registered, bool probe);

}  // namespace dpbench
