// What the ranks traced, put together: one file for each case.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "harness/report/record/report.h"

namespace dpbench {

// Puts the ranks' files in this directory together. complain: what could not be.
void merge_traces(const Report& report, const std::filesystem::path& directory,
                  const std::function<void(const std::string&)>& complain);

}  // namespace dpbench
