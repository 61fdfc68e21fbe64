#include "harness/report/record/find_run.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <fstream>
#include <new>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/report/record/save.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;

constexpr size_t report_max_bytes = size_t{512} << 20;
// Of the document. What is made of it, and that written out again for validate, take as much each: 3 GiB in all.
constexpr size_t report_max_memory = size_t{1} << 30;

constexpr size_t run_time_length = std::string_view("20261121T063057Z").size();

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_directory(path, error);
}

// By the second in their names; those of one second by when they were written, then by what else the name says.
std::vector<fs::path> runs_in(const fs::path& results) {
  std::vector<std::tuple<std::string, fs::file_time_type, fs::path>> runs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(results, error)) {
    const std::string name = entry.path().filename().string();
    if (is_run_name(name) && is_file(entry.path() / "run.json"))
      runs.emplace_back(name.substr(0, run_time_length), fs::last_write_time(entry.path() / "run.json", error),
                        entry.path());
  }
  std::sort(runs.begin(), runs.end());
  std::vector<fs::path> paths;
  for (auto& [second, written, path] : runs) paths.push_back(std::move(path));
  return paths;
}

// 0 for "latest", N for "latest~N", nothing for anything else.
std::optional<size_t> age(const std::string& run) {
  if (run == "latest") return 0;
  if (!run.starts_with("latest~")) return std::nullopt;
  size_t age = 0;
  const char* end = run.data() + run.size();
  const auto [stop, error] = std::from_chars(run.data() + std::strlen("latest~"), end, age);
  if (error != std::errc{} || stop != end) throw UsageError(run + ": write latest~1 for the run before the latest");
  return age;
}

fs::path latest(const fs::path& results, size_t age, const std::string& run) {
  const auto runs = runs_in(results);
  if (age < runs.size()) return runs[runs.size() - 1 - age] / "run.json";
  throw UsageError(run + ": there are " + std::to_string(runs.size()) + " runs in " + results.string());
}

}  // namespace

bool is_run_name(const std::string& name) {
  if (name.size() < 17 || name[8] != 'T' || name[15] != 'Z' || name[16] != '-') return false;
  return std::all_of(name.begin(), name.begin() + 8, [](unsigned char c) { return std::isdigit(c); });
}

fs::path find_run(const std::string& run, const fs::path& results) {
  if (run.empty()) throw UsageError("a run has no name: give a run.json, a directory of results or 'latest'");
  if (const auto steps = age(run)) return latest(results, *steps, run);
  const bool plain = run.find('/') == std::string::npos;
  fs::path baseline = results / "baselines" / (run + ".json");
  const bool saved = plain && is_file(baseline);
  std::error_code error;
  if (saved && fs::exists(run, error))
    throw UsageError("'" + run + "' is a saved baseline and a path here: write ./" + run + " or " + baseline.string());
  if (saved) return baseline;
  if (is_file(run)) return run;
  if (is_file(fs::path(run) / "run.json")) return fs::path(run) / "run.json";
  if (fs::is_directory(run, error)) return latest(run, 0, run);
  if (plain && is_file(results / run / "run.json")) return results / run / "run.json";
  throw UsageError("no run '" + run + "': neither a file, a directory, nor a baseline in " +
                   (results / "baselines").string());
}

bool is_unsaved_baseline(const std::string& run, const fs::path& results) {
  if (run.empty() || run.find('/') != std::string::npos || run.ends_with(".json") || age(run)) return false;
  std::error_code error;
  return !fs::exists(run, error) && !is_file(results / "baselines" / (run + ".json")) &&
         !is_file(results / run / "run.json");
}

std::string read_text(const fs::path& path, size_t max_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError("cannot read " + path.string() + ": " + std::strerror(errno));
  const auto refuse_above = [&](uintmax_t size) {
    if (size > max_bytes)
      throw UsageError(path.string() + " is larger than " + std::to_string(max_bytes >> 20) + " MiB");
  };
  std::error_code not_a_file;
  std::string text;
  if (const auto size = fs::file_size(path, not_a_file); !not_a_file) {
    refuse_above(size);
    text.reserve(size);
  }
  std::vector<char> piece(size_t{1} << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(file.gcount()));
    refuse_above(text.size());  // it may grow, or have no size
  }
  if (file.bad()) throw UsageError("cannot read " + path.string() + ": " + std::strerror(errno));
  return text;
}

Json read_document(const fs::path& path) try {
  const std::string text = read_text(path, report_max_bytes);
  JsonLimits limits;
  limits.memory = report_max_memory;
  return said_of(path, [&] { return parse_json(text, "the text", limits); });
} catch (const std::bad_alloc&) {
  throw UsageError(path.string() + ": there is not enough memory to read it");
}

Report read_report(const fs::path& path) {
  const Json document = read_document(path);
  return said_of(path, [&] { return report_from_json(document); });
}

}  // namespace dpbench
