// Merges the traces of the ranks into one file per case.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "harness/report/record/report.h"

namespace dpbench {

// Merges the trace files in `directory`. Passes a message to `complain` for each case that fails.
void merge_traces(const Report& report, const std::filesystem::path& directory,
                  const std::function<void(const std::string&)>& complain);

}  // namespace dpbench
