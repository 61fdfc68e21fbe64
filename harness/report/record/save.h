// Stores runs as results/<UTC time>-<commit>-<machine>/run.json. Runs are never overwritten; files are written
// atomically.
#pragma once

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// Thrown if the report cannot be written (disk full, directory gone). The previous file is untouched; dpbench exits
// with code 5.
class WriteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws UsageError unless `name` can be a file name: 1 to 128 bytes of UTF-8 without '/' or control characters, not
// starting with '-' or '.'. The message begins with `what`.
void check_name(const std::string& name, const std::string& what);

// Returns a time in UTC, e.g. 2026-11-21T06:30:57Z.
std::string utc_text(std::chrono::system_clock::time_point time);

// Returns the id of a run, e.g. 20261121T063057Z-a1b2c3d-2xEPYC-5f3a.
std::string run_id(std::chrono::system_clock::time_point now, const std::string& commit, const std::string& machine);

// The newly created directory of a run, to which its files are written.
class RunDirectory {
 public:
  // Creates the results directory (with its parents) and results/id in it; an id already taken gets the suffix -02,
  // -03, ... Throws UsageError on failure.
  RunDirectory(const std::filesystem::path& results, const std::string& id);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& id() const { return id_; }  // name of the run's directory, which may have a suffix
  const std::filesystem::path& path() const { return path_; }
  // Deletes the run's directory with its contents, and the parent directories that this object created and that are now
  // empty.
  void remove();
  // Writes run.json atomically. Skips the write if the last one was less than a second ago, unless `force` is set. Set
  // `force` for the last save of a run.
  void save(const Report& report, bool force = false);
  // Writes another JSON document of the run, as NAME.json.
  void save(const std::string& name, const Json& document) const;

 private:
  std::string id_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::filesystem::path> created_;  // parent directories created for this run, innermost first
  std::chrono::steady_clock::time_point next_save_{};
};

// Replaces directory/name with the text: writes a temporary file, syncs it to disk and renames it. directory: an open
// descriptor. Throws WriteError on failure.
void write_whole(int directory, const std::string& name, const std::string& text, const std::string& what);

// Writes all of the text to the descriptor. Returns false with errno set on failure.
bool write_all(int fd, const std::string& text);

// Throws WriteError if no file `name` can be written in the directory. Changes nothing.
void check_writable(int directory, const std::string& name, const std::string& what);

// Throws UsageError if the baseline `name` cannot be saved below `results`. Changes nothing.
void check_baseline_path(const std::filesystem::path& results, const std::string& name);

// Saves a copy of a report as results/baselines/NAME.json, replacing an existing baseline. Returns the path.
std::filesystem::path save_baseline(const Report& report, const std::filesystem::path& results,
                                    const std::string& name);

}  // namespace dpbench
