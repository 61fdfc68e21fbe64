// Checks a report against its JSON Schema, and for inconsistencies that a schema cannot express.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Returns the violations of the JSON Schema and the inconsistencies of a report, one line each; empty if there are
// none. Statistics are recomputed from the timed blocks. Throws UsageError if the document is not a report.
std::vector<std::string> problems_of(const Json& document);
// Compares stored figures with recomputed ones and adds a line to `found` for each difference. name: JSON path of the
// figures, for messages. stored: the stored figures, null if missing. again: the recomputed figures. older: the report
// has an older minor version, which may lack figures.
void compare_figures(const std::string& name, const Json* stored, const Json& again, bool older,
                     std::vector<std::string>& found);
// Reads a report file. Throws a UsageError that names the file if the report is invalid or contradicts itself.
Report read_consistent_report(const std::filesystem::path& file);

}  // namespace dpbench
