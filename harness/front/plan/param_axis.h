// --param: what one strategy is run with. Several values of a parameter are an axis; axes multiply.
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

// Throws UsageError for a text that is not [STRATEGY.]NAME=V,.. or a name that none of the chosen strategies has.
std::vector<ParamAxis> parse_params(const std::vector<std::string>& texts,
                                    const std::vector<const StrategyEntry*>& chosen);

// Every combination for one strategy, defaults left out; at least the empty one.
std::vector<ParamValues> combinations(const std::vector<ParamAxis>& axes, const StrategyEntry& strategy);

}  // namespace dpbench
