// What a command's RUN means, and reading it.
#pragma once

#include <filesystem>
#include <string>

#include "harness/report/record/report.h"
#include "workloads/base/error.h"

namespace dpbench {

// run: a report's file, a run's directory, a results directory (its latest run, by the time in its name), "latest",
// "latest~N" or the name of a baseline saved in results. Throws UsageError naming what was looked for.
std::filesystem::path find_run(const std::string& run, const std::filesystem::path& results);

// A plain name that is neither a saved baseline nor anything else: a base that was never saved.
bool is_unsaved_baseline(const std::string& run, const std::filesystem::path& results);

// A whole file of at most max_bytes. Throws UsageError.
std::string read_text(const std::filesystem::path& path, size_t max_bytes);

// A run's name begins with its UTC time: 20261121T063057Z-
bool is_run_name(const std::string& name);

// What `read` gives; what it refuses is said of this file.
template <class Read>
auto said_of(const std::filesystem::path& file, Read read) {
  try {
    return read();
  } catch (const UsageError& error) {
    throw UsageError(file.string() + ": " + error.what());
  }
}

// Parses a report's file as JSON. Throws UsageError naming the file.
Json read_document(const std::filesystem::path& path);
// And checks it.
Report read_report(const std::filesystem::path& path);

}  // namespace dpbench
