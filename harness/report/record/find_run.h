// Resolves the RUN argument of commands such as `dpbench compare` to a report file and reads the file.
#pragma once

#include <filesystem>
#include <string>

#include "harness/report/record/report.h"
#include "workloads/base/error.h"

namespace dpbench {

// Returns the path of the report that `run` means: a report file, a run directory, a results directory (its latest run,
// by the time in the name), "latest", "latest~N", or the name of a baseline or of a run directory in `results`. Throws
// UsageError if there is no such run.
std::filesystem::path find_run(const std::string& run, const std::filesystem::path& results);

// True if `run` is a plain name that matches no baseline, run or path: presumably the name of a baseline that is not
// saved yet.
bool is_unsaved_baseline(const std::string& run, const std::filesystem::path& results);

// Returns the text of a whole file. Throws UsageError if it cannot be read or is larger than max_bytes.
std::string read_text(const std::filesystem::path& path, size_t max_bytes);

// True if the name begins with a UTC time, as the name of a run directory does: 20261121T063057Z-...
bool is_run_name(const std::string& name);

// Returns the time with which a run's id begins, in the form 2026-11-21T06:30:57+00:00. Empty for any other id.
std::string start_time(const std::string& id);

// Returns the result of read(). Adds the file's name to any UsageError that read() throws.
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
// Reads a report file, checks its fields and converts it to a Report. Throws a UsageError that names the file.
Report read_report(const std::filesystem::path& path);

}  // namespace dpbench
