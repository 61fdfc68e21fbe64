#include "harness/report/validate/duel_validate.h"

#include <set>
#include <type_traits>

#include "harness/report/record/codec.h"
#include "harness/report/record/find_run.h"
#include "harness/report/validate/schema.h"
#include "harness/report/validate/validate.h"

namespace dpbench {
namespace {

DuelCase duel_case(const Json& json, const std::string& path) {
  const Fields fields(json, path);
  DuelCase record{.spec = case_from_json(json)};
  const auto take = [&](const char* key, auto& member) {
    using Member = std::remove_reference_t<decltype(member)>;
    if (const Json* found = fields.find(key); found && !found->is_null())
      member = read_value<Member>(*found, fields.path(key));
  };
  record.status = read_value<DuelStatus>(fields.at("status"), fields.path("status"));
  take("reason", record.reason);
  record.steps_per_block = fields.get<int64_t>("steps_per_block");
  fields.each("launches", [&](const Json& launch, const std::string& at) {
    auto& pairs = record.launches.emplace_back();
    pairs = read_value<std::vector<DuelPair>>(Fields(launch, at).at("pairs"), at + ".pairs");
    for (const DuelPair& pair : pairs)
      if (pair.base_ns < 1 || pair.new_ns < 1) throw UsageError(at + ".pairs contains a time below 1 ns");
  });
  take("base_checks", record.base_checks);
  take("new_checks", record.new_checks);
  take("warnings", record.warnings);
  return record;
}

std::vector<std::string> shape_of(const DuelReport& report, const DuelCase& record) {
  std::vector<std::string> found;
  const auto require = [&](bool holds, const std::string& problem) {
    if (!holds) found.push_back(problem);
  };
  require(record.spec.id == case_id(record.spec),
          "the id does not match the fields, which make " + case_id(record.spec));
  require(!record.ok() || record.steps_per_block > 0, "steps_per_block is not above 0");
  require(report.status != RunStatus::complete || record.status != DuelStatus::interrupted,
          "status is interrupted in a complete run");
  const bool fault = any_failed(record.base_checks) || any_failed(record.new_checks);
  require(!record.ok() || !fault, "status is ok, but a check failed");
  return found;
}

}  // namespace

DuelReport duel_from_json(const Json& document) {
  const Fields fields(document, "duel");
  if (fields.get_or<std::string>("schema", "") != duel_document)
    throw UsageError("not a duel's report: \"schema\" is not \"dpbench.duel\"");
  const int major = Fields(fields.at("schema_version"), "duel.schema_version").get<int>("major");
  if (major != 1)
    throw UsageError("the duel's report has major version " + std::to_string(major) + ". This dpbench reads version 1");
  DuelReport report;
  report.id = fields.get<std::string>("id");
  report.status = read_value<RunStatus>(fields.at("status"), "duel.status");
  report.order_seed = fields.get_or<int64_t>("order_seed", 0);
  report.tool = fields.at("tool");
  report.env = fields.at("env");
  report.config = fields.at("config");
  report.base = read_value<DuelBuild>(fields.at("base"), "duel.base");
  report.now = read_value<DuelBuild>(fields.at("new"), "duel.new");
  report.rule = read_value<DuelRule>(fields.at("rule"), "duel.rule");
  fields.each("cases", [&](const Json& one, const std::string& path) { report.cases.push_back(duel_case(one, path)); });
  report.added = list_of<std::string>(fields, "added");
  report.gone = list_of<std::string>(fields, "gone");
  for (DuelCase& record : report.cases)
    if (const auto logs = log_ratios(record); record.ok() && !logs.empty())
      record.look = duel_look(logs, static_cast<int>(record.launches.size()), report.rule, report.cases.size());
  return report;
}

std::vector<std::string> duel_problems_of(const Json& document) {
  const DuelReport report = duel_from_json(document);
  const Json again = to_json(report);
  std::vector<std::string> problems = schema_problems(document, duel_schema());
  if (!is_run_name(report.id))
    problems.push_back("the id '" + report.id + "' is not of the form <UTC time>-<commit>-<machine>");
  if (document.value("gate", "") != again.at("gate").get<std::string>())
    problems.push_back("gate does not match the verdicts");
  if (report.order_seed < 1 && document.at("schema_version").value("minor", 0) >= 1)
    problems.push_back("order_seed is missing or below 1");
  std::set<std::string> ids;
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const DuelCase& record = report.cases[i];
    auto found = shape_of(report, record);
    if (!ids.insert(record.spec.id).second) found.push_back("the id appears twice");
    const Json& stored = document.at("cases").at(i);
    for (const char* key : {"look", "verdict"})
      if (record.ok())
        compare_figures(key, stored.contains(key) ? &stored.at(key) : nullptr, again.at("cases").at(i).at(key), false,
                        found);
    for (const auto& text : found) problems.push_back(record.spec.id + ": " + text);
  }
  return problems;
}

}  // namespace dpbench
