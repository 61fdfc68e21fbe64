// Merges the profiler traces of all ranks into one file per case.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "harness/report/record/report.h"

namespace dpbench {

// Merges the trace files in `directory`, case by case. Calls `complain` with an error message for each case whose
// traces cannot be merged.
void merge_traces(const Report& report, const std::filesystem::path& directory,
                  const std::function<void(const std::string&)>& complain);

}  // namespace dpbench
