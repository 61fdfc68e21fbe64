// Where runs live: results/<UTC time>-<commit>-<machine>/run.json, never overwritten, whole or not there at all.
#pragma once

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/report/record/report.h"

namespace dpbench {

// The report could not be written: disk full, directory gone. What was there before is untouched. Exit code 5.
class WriteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A name that becomes a file's: 1 to 128 bytes of UTF-8, no '/', no control character, no leading '-' or '.'. Throws
// UsageError.
void check_name(const std::string& name, const std::string& what);

// 20261121T063057Z-a1b2c3d-2xEPYC-5f3a
std::string run_id(std::chrono::system_clock::time_point now, const std::string& commit, const std::string& machine);

// A run's own new directory.
class RunDirectory {
 public:
  // Makes results (with its parents) and results/id; a taken id gets -02, -03, ... UsageError if that cannot be done.
  RunDirectory(const std::filesystem::path& results, const std::string& id);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& id() const { return id_; }  // the directory's name: put it in the report
  const std::filesystem::path& path() const { return path_; }
  // Takes it away with all that is in it, and the directories above it that were made for it and hold nothing else.
  void drop();
  // Writes run.json beside the old one and renames it. At most once a second unless forced: force the last one.
  void save(const Report& report, bool force = false);
  // Another document of the run, as NAME.json.
  void save(const std::string& name, const Json& document) const;

 private:
  std::string id_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::vector<std::filesystem::path> made_;  // for it, the innermost first
  std::chrono::steady_clock::time_point next_{};
};

// Replaces directory/name with text in one rename, synced. directory: an open descriptor. Throws WriteError.
void write_whole(int directory, const std::string& name, const std::string& text, const std::string& what);

// Every byte of it; false: errno says why not.
bool write_all(int fd, const std::string& text);

// Throws WriteError where write_whole could not even begin. Leaves nothing, and what was there as it was.
void check_writable(int directory, const std::string& name, const std::string& what);

// Throws UsageError where save_baseline could not keep one. Makes nothing.
void check_baseline_place(const std::filesystem::path& results, const std::string& name);

// Keeps a copy of a report as results/baselines/NAME.json, replacing the one of that name.
std::filesystem::path save_baseline(const Report& report, const std::filesystem::path& results,
                                    const std::string& name);

}  // namespace dpbench
