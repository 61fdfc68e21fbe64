// Checks the consistency of a report, which a schema cannot express.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the inconsistencies, each with its case; empty if there are none. Statistics are recomputed from the blocks.
// Throws UsageError if the document is not a report.
std::vector<std::string> problems_of(const Json& document);
// Adds a line to `found` for each stored figure that differs from the recomputed one. stored: null if missing. older:
// the report has an older minor version, which may lack figures.
void compare_figures(const std::string& name, const Json* stored, const Json& again, bool older,
                     std::vector<std::string>& found);
// Returns a contradiction that could make a wrong case look right: an ok status despite a failed check, or a duplicate
// id.
std::optional<std::string> contradiction_of(const Report& report);
// Reads a report. Throws a UsageError that names the file if it is invalid or contradictory.
Report read_consistent_report(const std::filesystem::path& file);

}  // namespace dpbench
