// Resolves a command's RUN argument to a file and reads it.
#pragma once

#include <filesystem>
#include <string>

#include "harness/report/record/report.h"
#include "workloads/base/error.h"

namespace dpbench {

// Returns the path of a report. `run` is a report file, a run directory, a results directory (meaning its latest run,
// by the time in its name), "latest", "latest~N" or the name of a baseline saved in `results`. Throws UsageError if
// there is no such run.
std::filesystem::path find_run(const std::string& run, const std::filesystem::path& results);

// True if `run` is a plain name that matches no baseline, run or path: presumably a baseline not saved yet.
bool is_unsaved_baseline(const std::string& run, const std::filesystem::path& results);

// Reads a whole file of at most max_bytes. Throws UsageError.
std::string read_text(const std::filesystem::path& path, size_t max_bytes);

// True if the name begins with a UTC time, as a run's does: 20261121T063057Z-
bool is_run_name(const std::string& name);

// Returns read(). Adds the file's name to any UsageError it throws.
template <class Read>
auto name_file_in_errors(const std::filesystem::path& file, Read read) {
  try {
    return read();
  } catch (const UsageError& error) {
    throw UsageError(file.string() + ": " + error.what());
  }
}

// Parses a report file as JSON. Throws a UsageError that names the file.
Json read_document(const std::filesystem::path& path);
// Likewise, and converts it to a Report, checking its fields.
Report read_report(const std::filesystem::path& path);

}  // namespace dpbench
