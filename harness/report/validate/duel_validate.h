// Reads a duel.json and checks its consistency.
#pragma once

#include <string>
#include <vector>

#include "harness/report/judge/duel_report.h"

namespace dpbench {

// Throws UsageError if the document is not a duel report of this major version.
DuelReport duel_from_json(const Json& document);
// Returns the inconsistencies, each with its case. Looks and verdicts are recomputed from the pairs.
std::vector<std::string> duel_problems_of(const Json& document);

}  // namespace dpbench
