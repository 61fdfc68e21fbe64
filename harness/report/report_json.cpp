#include <array>

#include "harness/report/fields.h"
#include "harness/report/report.h"

namespace dpbench {
namespace {

constexpr int major_version = 1;

void require_one_of(const std::string& value, std::span<const std::string_view> allowed, const std::string& path) {
  std::string names;
  for (const std::string_view name : allowed) {
    if (value == name) return;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw UsageError(path + " is '" + value + "', not one of " + names);
}

Json to_json(const LaunchRecord& launch) {
  Json ranks = Json::array();
  for (const RankRecord& rank : launch.ranks) ranks.push_back(dpbench::to_json(rank));
  return {{"index", launch.index}, {"ranks", std::move(ranks)}};
}

LaunchRecord launch_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  LaunchRecord launch;
  launch.index = fields.get<int>("index");
  fields.each("ranks",
              [&](const Json& rank, const std::string&) { launch.ranks.push_back(rank_record_from_json(rank)); });
  return launch;
}

Json to_json(const Summary& s) {
  const bool interval = s.interval != "none";
  return {{"median", s.median},
          {"ci95_low", interval ? Json(s.ci95_low) : Json(nullptr)},
          {"ci95_high", interval ? Json(s.ci95_high) : Json(nullptr)},
          {"interval", s.interval},
          {"p90", s.p90},
          {"p99", s.p99},
          {"mad", s.mad},
          {"n", s.n},
          {"launches", s.launches}};
}

Summary summary_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  const auto median = fields.get<double>("median");
  if (!(median > 0)) throw UsageError(path + ".median is not above 0");
  return {.median = median,
          .ci95_low = fields.get_or("ci95_low", median),
          .ci95_high = fields.get_or("ci95_high", median),
          .mad = fields.get<double>("mad"),
          .p90 = fields.get<double>("p90"),
          .p99 = fields.get<double>("p99"),
          .n = fields.get<int64_t>("n"),
          .launches = fields.get<int>("launches"),
          .interval = fields.get<std::string>("interval")};
}

struct DerivedField {
  const char* name;
  std::optional<double> Derived::*field;
};
constexpr DerivedField derived_fields[] = {{"samples_per_s", &Derived::samples_per_s},
                                           {"speedup", &Derived::speedup},
                                           {"efficiency", &Derived::efficiency},
                                           {"own_speedup", &Derived::own_speedup},
                                           {"own_efficiency", &Derived::own_efficiency},
                                           {"karp_flatt", &Derived::karp_flatt},
                                           {"own_karp_flatt", &Derived::own_karp_flatt},
                                           {"wrapper_cost", &Derived::wrapper_cost},
                                           {"comm_fraction", &Derived::comm_fraction},
                                           {"communication_ns", &Derived::communication_ns},
                                           {"exposed_ns", &Derived::exposed_ns},
                                           {"waiting_ns", &Derived::waiting_ns},
                                           {"overlap", &Derived::overlap},
                                           {"collectives_per_step", &Derived::collectives_per_step},
                                           {"collective_bytes_per_step", &Derived::collective_bytes_per_step},
                                           {"flop_per_step", &Derived::flop_per_step},
                                           {"flop_per_s", &Derived::flop_per_s},
                                           {"peak_flop_per_s", &Derived::peak_flop_per_s},
                                           {"peak_bytes_per_s", &Derived::peak_bytes_per_s},
                                           {"flop_share", &Derived::flop_share},
                                           {"skew", &Derived::skew},
                                           {"gpu_power_w", &Derived::gpu_power_w},
                                           {"throttled_share", &Derived::throttled_share},
                                           {"noise", &Derived::noise}};

Json to_json(const Derived& d) {
  Json json = Json::object();
  for (const auto& [name, field] : derived_fields) json[name] = or_null(d.*field);
  json["peak_memory_bytes"] = or_null(d.peak_memory_bytes);
  json["straggler"] = or_null(d.straggler);
  return json;
}

Derived derived_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  Derived d;
  for (const auto& [name, field] : derived_fields) d.*field = fields.maybe<double>(name);
  d.peak_memory_bytes = fields.maybe<int64_t>("peak_memory_bytes");
  d.straggler = fields.maybe<int>("straggler");
  return d;
}

// The mean watched step over the ranks of all launches: what the phases add up to.
std::optional<double> mean_watched_step_ns(const CaseRecord& record) {
  double sum = 0, n = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      if (rank.profile) sum += rank.profile->step_ns, ++n;
  return n > 0 ? std::optional(sum / n) : std::nullopt;
}

// The case's own fields stand beside its results: one flat row.
Json to_json(const CaseRecord& record) {
  Json json = dpbench::to_json(record.spec);
  json["status"] = record.status;
  json["reason"] = record.reason;
  json["checks"] = Json::array();
  for (const CheckRow& row : record.checks) json["checks"].push_back(dpbench::to_json(row));
  json.update(figures_json(record));
  if (record.training) json["training"] = dpbench::to_json(*record.training);
  json["warnings"] = record.warnings;
  json["notices"] = record.notices;
  json["launches"] = Json::array();
  for (const LaunchRecord& launch : record.launches) json["launches"].push_back(to_json(launch));
  return json;
}

constexpr std::array<std::string_view, 5> case_statuses = {"ok", "wrong", "failed", "skipped", "interrupted"};
constexpr std::array<std::string_view, 2> run_statuses = {"complete", "interrupted"};

CaseRecord case_record_from_json(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  CaseRecord record;
  record.spec = case_from_json(json);
  record.status = fields.get<std::string>("status");
  require_one_of(record.status, case_statuses, path + ".status");
  if (fields.find("reason")) record.reason = fields.get<std::string>("reason");
  fields.each("checks",
              [&](const Json& row, const std::string&) { record.checks.push_back(check_row_from_json(row)); });
  fields.each("launches", [&](const Json& launch, const std::string& at) {
    record.launches.push_back(launch_from_json(launch, at));
  });
  const Fields stats(fields.at("stats"), path + ".stats");
  const Json* step_time = stats.find("step_time_ns");
  if (step_time && !step_time->is_null())
    record.step_time_ns = summary_from_json(*step_time, stats.path("step_time_ns"));
  record.derived = derived_from_json(fields.at("derived"), path + ".derived");
  if (const Json* training = fields.find("training")) record.training = training_record_from_json(*training);
  record.warnings = list_of<std::string>(fields, "warnings");
  record.notices = list_of<std::string>(fields, "notices");
  return record;
}

void require_version(const Fields& report) {
  if (report.get_or<std::string>("schema", "") != "dpbench.run")
    throw UsageError("not a report of dpbench: its \"schema\" is not \"dpbench.run\"");
  const Fields version(report.at("schema_version"), report.path("schema_version"));
  const int major = version.get<int>("major");
  if (major != major_version)
    throw UsageError("report of schema version " + std::to_string(major) + "." +
                     std::to_string(version.get<int>("minor")) + ": this dpbench reads version " +
                     std::to_string(major_version) + " (use the dpbench that wrote it)");
}

}  // namespace

Json figures_json(const CaseRecord& record) {
  return {{"stats", {{"step_time_ns", record.step_time_ns ? to_json(*record.step_time_ns) : Json(nullptr)}}},
          {"phases",
           {{"mean_step_ns", mean_phases_ns(record)}, {"watched_step_ns", or_null(mean_watched_step_ns(record))}}},
          {"derived", to_json(record.derived)}};
}

Json to_json(const Report& report) {
  Json json = {
      {"schema", "dpbench.run"}, {"schema_version", {{"major", major_version}, {"minor", report_minor_version}}},
      {"id", report.id},         {"status", report.status},
      {"tool", report.tool},     {"env", report.env},
      {"config", report.config}, {"cases", Json::array()}};
  for (const CaseRecord& record : report.cases) json["cases"].push_back(to_json(record));
  return json;
}

Report report_from_json(const Json& json) {
  const Fields fields(json, "report");
  require_version(fields);
  Report report;
  report.id = fields.get<std::string>("id");
  report.status = fields.get<std::string>("status");
  require_one_of(report.status, run_statuses, "report.status");
  report.tool = fields.at("tool");
  report.env = fields.at("env");
  report.config = fields.at("config");
  if (!report.tool.is_object() || !report.env.is_object() || !report.config.is_object())
    throw UsageError("report.tool, report.env and report.config are objects");
  if (!fields.at("cases").is_array()) throw UsageError("report.cases is not an array");
  fields.each("cases", [&](const Json& record, const std::string& path) {
    report.cases.push_back(case_record_from_json(record, path));
  });
  return report;
}

}  // namespace dpbench
