// Storage of runs: results/<UTC time>-<commit>-<machine>/run.json. Runs are never overwritten; files are written
// atomically.
#pragma once

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// The report could not be written: disk full, directory gone. The previous file is untouched. Exit code 5.
class WriteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws UsageError unless `name` can be a file name: 1 to 128 bytes of UTF-8, no '/', no control character, no leading
// '-' or '.'.
void check_name(const std::string& name, const std::string& what);

// Returns e.g. 20261121T063057Z-a1b2c3d-2xEPYC-5f3a.
std::string run_id(std::chrono::system_clock::time_point now, const std::string& commit, const std::string& machine);

// The new directory of a run.
class RunDirectory {
 public:
  // Creates results (with its parents) and results/id; a taken id gets the suffix -02, -03, ... Throws UsageError on
  // failure.
  RunDirectory(const std::filesystem::path& results, const std::string& id);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& id() const { return id_; }  // the directory's name, which may have a suffix
  const std::filesystem::path& path() const { return path_; }
  // Deletes the directory and its contents, and the parents that were created for it and are empty now.
  void remove();
  // Writes run.json atomically, at most once a second unless forced. Force the last save.
  void save(const Report& report, bool force = false);
  // Writes another document of the run, as NAME.json.
  void save(const std::string& name, const Json& document) const;

 private:
  std::string id_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::filesystem::path> created_;  // created parents, innermost first
  std::chrono::steady_clock::time_point next_save_{};
};

// Replaces directory/name with text by a rename, synced to disk. directory: an open descriptor. Throws WriteError.
void write_whole(int directory, const std::string& name, const std::string& text, const std::string& what);

// Writes all of the text. On failure returns false with errno set.
bool write_all(int fd, const std::string& text);

// Throws WriteError if write_whole could not create its temporary file. Changes nothing.
void check_writable(int directory, const std::string& name, const std::string& what);

// Throws UsageError if save_baseline could not write there. Changes nothing.
void check_baseline_path(const std::filesystem::path& results, const std::string& name);

// Saves a copy of a report as results/baselines/NAME.json, replacing an existing one.
std::filesystem::path save_baseline(const Report& report, const std::filesystem::path& results,
                                    const std::string& name);

}  // namespace dpbench
