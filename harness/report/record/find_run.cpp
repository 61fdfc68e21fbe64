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
// Memory limit for a report parsed as JSON. Two more copies may exist, each as large: the Report struct made from it,
// and the JSON that `dpbench validate` makes from that struct.
constexpr size_t report_max_memory = size_t{1} << 30;

constexpr size_t run_time_length = std::string_view("20261121T063057Z").size();

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_directory(path, error);
}

// Returns the run directories below `results` in chronological order: by the time in their names, then by modification
// time, then by name.
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

// Parses a RUN argument that counts back from the latest run. Returns 0 for "latest", N for "latest~N" and nullopt for
// a name or path. Throws UsageError if N is not a number.
std::optional<size_t> runs_back(const std::string& run) {
  if (run == "latest") return 0;
  if (!run.starts_with("latest~")) return std::nullopt;
  size_t count = 0;
  const char* end = run.data() + run.size();
  const auto [stop, error] = std::from_chars(run.data() + std::strlen("latest~"), end, count);
  if (error != std::errc{} || stop != end) throw UsageError(run + ": not a run. latest~1 is the run before the latest");
  return count;
}

fs::path latest(const fs::path& results, size_t back, const std::string& run) {
  const auto runs = runs_in(results);
  if (back < runs.size()) return runs[runs.size() - 1 - back] / "run.json";
  if (runs.empty()) throw UsageError(run + ": there is no run in " + results.string());
  throw UsageError(run + ": the oldest run in " + results.string() + " is latest~" + std::to_string(runs.size() - 1));
}

}  // namespace

bool is_run_name(const std::string& name) {
  if (name.size() < 17 || name[8] != 'T' || name[15] != 'Z' || name[16] != '-') return false;
  const auto digits = [&](int from, int to) {
    return std::all_of(name.begin() + from, name.begin() + to, [](unsigned char c) { return std::isdigit(c); });
  };
  return digits(0, 8) && digits(9, 15);
}

std::string start_time(const std::string& id) {
  if (!is_run_name(id)) return "";
  return id.substr(0, 4) + "-" + id.substr(4, 2) + "-" + id.substr(6, 2) + "T" + id.substr(9, 2) + ":" +
         id.substr(11, 2) + ":" + id.substr(13, 2) + "+00:00";
}

fs::path find_run(const std::string& run, const fs::path& results) {
  if (run.empty()) throw UsageError("the name of the run is empty. Use a run.json, a results directory or 'latest'");
  if (const auto back = runs_back(run)) return latest(results, *back, run);
  const bool plain = run.find('/') == std::string::npos;
  fs::path baseline = results / "baselines" / (run + ".json");
  const bool saved = plain && is_file(baseline);
  std::error_code error;
  if (saved && fs::exists(run, error))
    throw UsageError("'" + run + "' is both a saved baseline and a local path. Use ./" + run + " or " +
                     baseline.string());
  if (saved) return baseline;
  if (is_file(run)) return run;
  if (is_file(fs::path(run) / "run.json")) return fs::path(run) / "run.json";
  if (fs::is_directory(run, error)) return latest(run, 0, run);
  if (plain && is_file(results / run / "run.json")) return results / run / "run.json";
  throw UsageError("run '" + run + "' not found: no such file or directory, and no such baseline in " +
                   (results / "baselines").string());
}

bool is_unsaved_baseline(const std::string& run, const fs::path& results) {
  if (run.empty() || run.find('/') != std::string::npos || run.ends_with(".json") || runs_back(run)) return false;
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
    refuse_above(text.size());  // check the size while reading, because a file may grow and a pipe has no size
  }
  if (file.bad()) throw UsageError("cannot read " + path.string() + ": " + std::strerror(errno));
  return text;
}

Json read_document(const fs::path& path) try {
  const std::string text = read_text(path, report_max_bytes);
  JsonLimits limits;
  limits.memory = report_max_memory;
  return name_file_in_errors(path, [&] { return parse_json(text, "the text", limits); });
} catch (const std::bad_alloc&) {
  throw UsageError(path.string() + ": not enough memory to read it");
}

Report read_report(const fs::path& path) {
  const Json document = read_document(path);
  return name_file_in_errors(path, [&] { return report_from_json(document); });
}

}  // namespace dpbench
