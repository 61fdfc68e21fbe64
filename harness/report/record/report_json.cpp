#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/report/record/codec.h"
#include "harness/report/record/report.h"

namespace dpbench {
namespace {

constexpr int major_version = 1;

CaseRecord case_record_from_json(const Json& json, const std::string& path) {
  CaseRecord record;
  read_fields(json, path, record);
  record.spec = case_from_json(json);
  if (record.step_time_ns && !(record.step_time_ns->median > 0))
    throw UsageError(path + ".stats.step_time_ns.median is not above 0");
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks) require_times(rank);
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

Json to_json(const CaseRecord& record) {
  Json json = write_value(record.spec);
  // Fix the order of a case's first keys in run.json, where `means` follows `reason`. In the field table, `means` comes
  // later.
  for (const char* key : {"status", "reason", "means"}) json[key] = nullptr;
  write_fields(record, json);
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
