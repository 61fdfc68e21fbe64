// Reading a duel.json, and whether it agrees with itself.
#pragma once

#include <string>
#include <vector>

#include "harness/report/judge/duel_report.h"

namespace dpbench {

// Throws UsageError where it is no duel's report of this major version.
DuelReport duel_from_json(const Json& document);
// Each problem names its case: looks and verdicts are worked out again from the pairs.
std::vector<std::string> duel_problems_of(const Json& document);

}  // namespace dpbench
