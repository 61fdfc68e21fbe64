#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/report/record/codec.h"
#include "harness/report/record/report.h"

namespace dpbench {
namespace {

constexpr int major_version = 1;

std::vector<LaunchRecord> launches_from_json(const Json& json, const std::string& path) {
  auto launches = read_value<std::vector<LaunchRecord>>(json, path);
  for (const LaunchRecord& launch : launches)
    for (const RankRecord& rank : launch.ranks) require_times(rank);
  return launches;
}

// Returns the mean time of a profiled step over the ranks of all launches, without disturbed profiles; nullopt if there
// is none. The times of the step's phases add up to it.
std::optional<double> mean_watched_step_ns(const CaseRecord& record) {
  double sum = 0, n = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      if (rank.profile && !rank.profile->disturbed) sum += rank.profile->step_ns, ++n;
  return n > 0 ? std::optional(sum / n) : std::nullopt;
}

CaseRecord case_record_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  CaseRecord record;
  const auto take = [&](const char* key, auto& member) {
    const Json* found = fields.find(key);
    if (found && !found->is_null())
      member = read_value<std::remove_reference_t<decltype(member)>>(*found, fields.path(key));
  };
  record.spec = case_from_json(json);
  record.status = read_value<CaseStatus>(fields.at("status"), fields.path("status"));
  take("reason", record.reason);
  take("means", record.means);
  take("checks", record.checks);
  if (const Json* launches = fields.find("launches"))
    record.launches = launches_from_json(*launches, fields.path("launches"));
  const Fields stats(fields.at("stats"), path + ".stats");
  if (const Json* found = stats.find("step_time_ns"))
    record.step_time_ns = read_value<std::optional<Summary>>(*found, stats.path("step_time_ns"));
  if (record.step_time_ns && !(record.step_time_ns->median > 0))
    throw UsageError(stats.path("step_time_ns") + ".median is not above 0");
  record.derived = read_value<Derived>(fields.at("derived"), fields.path("derived"));
  take("memory_formula", record.memory_formula);
  take("training", record.training);
  take("warnings", record.warnings);
  take("notices", record.notices);
  return record;
}

// Sets spec.baseline in a report of version 1.0, which lacks this key: the baseline is the case whose strategy is "cpu"
// or "gpu".
void mark_baseline(CaseSpec& spec) { spec.baseline = spec.strategy == (spec.device == Device::cuda ? "gpu" : "cpu"); }

// Marks a case of a report before 1.5 as run by the fast runtime, the only one at that time, so that it is not taken
// for a case of torch's runtime.
void mark_runtime(CaseSpec& spec) {
  const bool usual = spec.id == case_id(spec);
  spec.runtime = Runtime::fast;
  spec.id = usual ? case_id(spec) : spec.id + "/" + name_of(spec.runtime);
}

void require_version(const Fields& report) {
  if (report.get_or<std::string>("schema", "") != run_document)
    throw UsageError("not a report of dpbench: \"schema\" is not \"dpbench.run\"");
  const Fields version(report.at("schema_version"), report.path("schema_version"));
  const int major = version.get<int>("major");
  if (major != major_version)
    throw UsageError("the report has schema version " + std::to_string(major) + "." +
                     std::to_string(version.get<int>("minor")) + ". This dpbench reads version " +
                     std::to_string(major_version) + ". Use the dpbench that wrote the report");
}

}  // namespace

Json figures_json(const CaseRecord& record) {
  return {{"stats", {{"step_time_ns", write_value(record.step_time_ns)}}},
          {"phases",
           {{"mean_step_ns", mean_phases_ns(record)}, {"watched_step_ns", or_null(mean_watched_step_ns(record))}}},
          {"derived", write_value(record.derived)}};
}

// Returns a case as one flat JSON object with the fields of its CaseSpec and its results.
Json to_json(const CaseRecord& record) {
  Json json = write_value(record.spec);
  json["status"] = write_value(record.status);
  json["reason"] = record.reason;
  json["means"] = record.means.empty() ? Json(nullptr) : Json(record.means);
  json["checks"] = write_value(record.checks);
  json.update(figures_json(record));
  json["memory_formula"] = write_value(record.memory_formula);
  if (record.training) json["training"] = write_value(*record.training);
  json["warnings"] = record.warnings;
  json["notices"] = record.notices;
  json["launches"] = write_value(record.launches);
  return json;
}

Json to_json(const Report& report) {
  Json json = write_document(report);
  json["cases"] = Json::array();
  for (const CaseRecord& record : report.cases) json["cases"].push_back(to_json(record));
  return json;
}

Report report_from_json(const Json& json) {
  const Fields fields(json, "report");
  require_version(fields);
  auto report = read_value<Report>(json, "report");
  if (!fields.at("cases").is_array()) throw UsageError("report.cases is not an array");
  const int minor = Fields(fields.at("schema_version"), fields.path("schema_version")).get<int>("minor");
  fields.each("cases", [&](const Json& record, const std::string& path) {
    report.cases.push_back(case_record_from_json(record, path));
    if (minor == 0) mark_baseline(report.cases.back().spec);
    if (minor < 5) mark_runtime(report.cases.back().spec);
  });
  return report;
}

}  // namespace dpbench
