#include "harness/front/run/traces.h"

#include <exception>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "harness/report/export/trace.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

Json read_trace(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

void merge_one(const fs::path& stem, int ranks) {
  std::vector<Json> traces;
  std::vector<fs::path> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(stem.string() + ".rank" + std::to_string(rank) + ".json");
  for (const fs::path& part : parts) traces.push_back(read_trace(part));
  std::ofstream file(stem.string() + ".trace.json");
  file << merged_trace(traces).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) throw std::runtime_error("could not be written");
  for (const fs::path& part : parts) fs::remove(part);
}

}  // namespace

void merge_traces(const Report& report, const fs::path& directory,
                  const std::function<void(const std::string&)>& complain) {
  for (const CaseRecord& record : report.cases) {
    if (record.launches.empty()) continue;
    try {
      merge_one(directory / trace_stem(record.spec.id), record.spec.processes);
    } catch (const std::exception& error) {
      complain("trace of " + record.spec.id + ": " + std::string(error.what()).substr(0, 200));
    }
  }
}

}  // namespace dpbench
