#include "harness/report/validate/validate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/report/answer/answer.h"
#include "harness/report/answer/members.h"
#include "harness/report/figures/summarise.h"
#include "harness/report/machine/tool.h"
#include "harness/report/record/codec.h"
#include "harness/report/record/find_run.h"
#include "harness/report/validate/schema.h"
#include "harness/report/validate/shape_problems.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// True if a stored and a recomputed figure agree. JSON keeps numbers exactly, so the two differ only by the order of
// arithmetic. The absolute tolerance is for figures that are differences of numbers near 1.
bool nearly_equal(const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number()) return a == b;
  const auto x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)) + 1e-12;
}

std::vector<std::string> disagreements(const Json& stored, CaseStatus status, const CaseRecord& again, bool older) {
  std::vector<std::string> found;
  if (status != again.status)
    found.push_back("status is " + name_of(status) + " but its checks make it " + name_of(again.status));
  const Json computed = to_json(again);
  for (const char* block : {"stats", "phases", "derived"})
    compare_figures(block, stored.contains(block) ? &stored.at(block) : nullptr, computed.at(block), older, found);
  return found;
}

// Returns an answer's JSON without its sentences. Another build may word them differently.
Json without_sentences(Json answer) {
  if (!answer.is_object()) return answer;
  answer.erase("sentences");
  if (answer.contains("groups") && answer["groups"].is_array())
    for (Json& group : answer["groups"])
      if (group.is_object()) group.erase("sentences");
  return answer;
}

constexpr int first_minor_with_answer = 7;

// True if a group has cases that are paired with different references. Another build may have compared them by the
// intervals over launches alone.
bool mixes_references(const Report& report) {
  return std::ranges::any_of(groups_of(report).groups, [](const CaseGroup& group) {
    return !group.paired && std::ranges::any_of(group.members, [](const RankedCase& member) {
      return member.over_reference.has_value();
    });
  });
}

// Adds the differences between the stored answer and the answer computed from report `again` to `found`. The answer may
// be absent unless the run is complete and timed a case.
void compare_answers(const Json& document, const Report& again, bool older, std::vector<std::string>& found) {
  if (document.at("schema_version").value("minor", 0) < first_minor_with_answer) return;
  const Json stored = document.value("answer", Json());
  const bool timed = std::any_of(again.cases.begin(), again.cases.end(),
                                 [](const CaseRecord& record) { return record.step_time_ns && !record.training; });
  if (stored.is_null() && (older || !timed || again.status != RunStatus::complete)) return;
  const bool own = document.at("tool").value("commit", "") == built_commit();
  if (!own && mixes_references(again)) return;
  const Json computed = write_value(answer_of(again));
  compare_figures("answer", &stored, own ? computed : without_sentences(computed), older, found);
}

// Returns a contradiction in the report that could make a wrong case look correct (an ok status despite a failed check,
// or a duplicate id), or nullopt.
std::optional<std::string> contradiction_of(const Report& report) {
  std::set<std::string> ids;
  for (const CaseRecord& record : report.cases) {
    const std::string& id = record.spec.id;
    if (record.status == CaseStatus::ok && failing_check(record)) return id + " is ok, but its checks make it wrong";
    if (!ids.insert(id).second) return id + " appears twice";
  }
  return std::nullopt;
}

}  // namespace

void compare_figures(const std::string& name, const Json* stored, const Json& again, bool older,
                     std::vector<std::string>& found) {
  if (!stored || stored->is_null()) {
    if (!older && !again.is_null()) found.push_back(name + " does not match the measurements");
  } else if (again.is_object() && stored->is_object()) {
    for (const auto& [key, value] : again.items())
      compare_figures(name + "." + key, stored->contains(key) ? &stored->at(key) : nullptr, value, older, found);
  } else if (again.is_array() && stored->is_array() && again.size() == stored->size()) {
    for (size_t i = 0; i < again.size(); ++i)
      compare_figures(name + "[" + std::to_string(i) + "]", &stored->at(i), again[i], older, found);
  } else if (!nearly_equal(*stored, again)) {
    found.push_back(name + " does not match the measurements");
  }
}

Report read_consistent_report(const std::filesystem::path& file) {
  Report report = read_report(file);
  if (const auto why = contradiction_of(report)) throw UsageError(file.string() + ": " + *why);
  return report;
}

std::vector<std::string> problems_of(const Json& document) {
  const Report report = report_from_json(document);
  std::vector<std::string> problems = schema_problems(document, run_schema());
  for (auto& text : shape_problems(report)) problems.push_back(std::move(text));
  Report again = report;
  summarise(again);
  const bool older = document.at("schema_version").value("minor", 0) < report_minor_version;
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const CaseRecord& record = report.cases[i];
    for (const auto& text : shape_problems(report, record)) problems.push_back(record.spec.id + ": " + text);
    for (const auto& text : disagreements(document.at("cases").at(i), record.status, again.cases[i], older))
      problems.push_back(record.spec.id + ": " + text);
  }
  compare_answers(document, again, older, problems);
  return problems;
}

}  // namespace dpbench
