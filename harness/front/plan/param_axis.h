// Parses --param. Each strategy parameter with several values is an axis; the strategy runs with every combination of
// its axes' values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/front/plan/catalogue.h"

namespace dpbench {

using ParamValues = std::map<std::string, std::string>;

struct ParamAxis {
  std::string strategy;  // strategy that has the parameter; empty: every chosen strategy that has it
  std::string name;
  std::vector<std::string> values;
};

// Parses the --param texts. Throws UsageError if a text is not [STRATEGY.]NAME=V,.., names a parameter that no chosen
// strategy has, or has a value that the parameter does not allow.
std::vector<ParamAxis> parse_params(const std::vector<std::string>& texts,
                                    const std::vector<const StrategyEntry*>& chosen);

// Returns every combination of parameter values for one strategy. Omits parameters that have their default value, so
// the default combination is an empty map.
std::vector<ParamValues> combinations(const std::vector<ParamAxis>& axes, const StrategyEntry& strategy);

}  // namespace dpbench
