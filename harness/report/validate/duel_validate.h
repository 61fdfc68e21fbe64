// Reads a duel report (duel.json) and checks its consistency.
#pragma once

#include <string>
#include <vector>

#include "harness/report/judge/duel_report.h"

namespace dpbench {

// Reads a duel report (two builds measured in turn) from JSON. Throws UsageError if the document is something else or
// has another major version of the schema.
DuelReport duel_from_json(const Json& document);
// Returns the violations of the JSON Schema and the inconsistencies of a duel report, one line each; empty if there are
// none. Interim analyses and verdicts are recomputed from the times of the pairs of blocks.
std::vector<std::string> duel_problems_of(const Json& document);

}  // namespace dpbench
