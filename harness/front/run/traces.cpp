#include "harness/front/run/traces.h"

#include <algorithm>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "harness/front/run/pipeline/rows.h"
#include "harness/report/export/trace.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

Json read_trace(const fs::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// Returns the ranks of each pipeline; empty if the mesh has no axis pp.
std::vector<std::vector<int>> pipelines_of(const CaseSpec& spec) {
  const MeshShape shape = parse_mesh(spec.mesh);
  const auto axis = std::ranges::find(shape, "pp", &AxisSize::name);
  if (axis == shape.end()) return {};
  return groups_of_axis(shape, static_cast<size_t>(axis - shape.begin()));
}

void merge_one(const fs::path& stem, const CaseSpec& spec) {
  std::vector<Json> traces;
  std::vector<fs::path> parts;
  for (int rank = 0; rank < spec.processes; ++rank)
    parts.push_back(stem.string() + ".rank" + std::to_string(rank) + ".json");
  for (const fs::path& part : parts) traces.push_back(read_trace(part));
  Json merged = merged_trace(traces);
  // Traces show pipelines only on the CPU: on a GPU, their spans would show when kernels are launched, not when they
  // run.
  if (spec.device == Device::cpu) add_pipeline_rows(merged, pipelines_of(spec));
  std::ofstream file(stem.string() + ".trace.json");
  file << merged.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
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
      merge_one(directory / trace_stem(record.spec.id), record.spec);
    } catch (const std::exception& error) {
      complain("trace of " + record.spec.id + ": " + std::string(error.what()).substr(0, 200));
    }
  }
}

}  // namespace dpbench
