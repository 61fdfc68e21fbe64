// Decides which scenarios (test runs) apply to a strategy, and which of its options (--param) a model requires.
#pragma once

#include <optional>
#include <string>

#include "harness/conform/scenario/unused.h"

namespace dpbench {

// Returns the reason why a scenario does not apply to the strategy; nullopt if it applies. twin: the workload with
// softplus instead of ReLU.
std::optional<std::string> why_not_applicable(const Scenario& scenario, const StrategyInfo& strategy,
                                              const Workload& workload, const Workload& twin);

// Returns the error with which a model refuses to train on a batch of one sample, if it accepts two; otherwise nullopt.
std::optional<std::string> why_not_one_sample(const Workload& workload);

// Settings for running a model with parameters that some ranks do not use.
struct UnusedPlan {
  UnusedPattern pattern = {};     // unused model parameters that the strategy may refuse with an error naming them
  ParamValues params = {};        // strategy options (--param) that allow unused model parameters
  std::string not_runnable = {};  // reason why the strategy cannot run the model; an empty string if it can
};

// registered: the strategy's properties before they are adjusted to its options. probe: the model is a probe (a small
// test model), so more steps are searched for unused parameters even if the first two use all.
UnusedPlan plan_for_unused(const Bench& bench, const StrategyInfo& registered, bool probe);

// text_of() and plan_from() convert an UnusedPlan to text and back, to send it to other ranks. UnusedPlan::pattern is
// left out.
std::string text_of(const UnusedPlan& plan);
UnusedPlan plan_from(const std::string& text);

}  // namespace dpbench
