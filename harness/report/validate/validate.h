// What a schema cannot say about a report: that it agrees with itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Each problem names its case; empty: the report holds together. Statistics are worked out again from the raw samples.
// Throws UsageError where the document is no report.
std::vector<std::string> problems_of(const Json& document);
// Adds a line for each figure that is another one than worked out again. stored: null where there is none. older: of a
// minor version that may not have known each figure yet.
void compare_figures(const std::string& name, const Json* stored, const Json& again, bool older,
                     std::vector<std::string>& found);
// What would let a wrong case pass for a sound one: a status that its own checks deny, an id that stands there twice.
std::optional<std::string> contradiction_of(const Report& report);
// Throws UsageError also for such a report, naming the file.
Report read_sound_report(const std::filesystem::path& file);

}  // namespace dpbench
