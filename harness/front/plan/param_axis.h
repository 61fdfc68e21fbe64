// Parses --param. Each parameter with several values is an axis; a strategy runs with every combination of its axes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/front/plan/catalogue.h"

namespace dpbench {

using ParamValues = std::map<std::string, std::string>;

struct ParamAxis {
  std::string strategy;  // empty: every chosen strategy that has the parameter
  std::string name;
  std::vector<std::string> values;
};

// Throws UsageError if a text is not [STRATEGY.]NAME=V,.. or names a parameter that no chosen strategy has.
std::vector<ParamAxis> parse_params(const std::vector<std::string>& texts,
                                    const std::vector<const StrategyEntry*>& chosen);

// Returns every combination for one strategy, without the parameters at their default; at least the empty combination.
std::vector<ParamValues> combinations(const std::vector<ParamAxis>& axes, const StrategyEntry& strategy);

}  // namespace dpbench
