#include "harness/report/validate.h"

#include <cmath>
#include <set>

namespace dpbench {
namespace {

// What is written is the shortest text that reads back as the same double: only arithmetic order may differ.
bool alike(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::abs(*a - *b) <= 1e-9 * std::max(std::abs(*a), std::abs(*b));
}

std::optional<double> field(const CaseRecord& record, double Summary::*of) {
  return record.step_time_ns ? std::optional((*record.step_time_ns).*of) : std::nullopt;
}

std::vector<std::string> disagreements(const CaseRecord& stored, const CaseRecord& again) {
  std::vector<std::string> found;
  const auto compare = [&](const char* name, std::optional<double> a, std::optional<double> b) {
    if (!alike(a, b)) found.push_back(std::string(name) + " does not follow from the samples");
  };
  if (stored.status != again.status)
    found.push_back("status is " + stored.status + " but its checks make it " + again.status);
  compare("stats.step_time_ns.median", field(stored, &Summary::median), field(again, &Summary::median));
  compare("stats.step_time_ns.ci95_low", field(stored, &Summary::ci95_low), field(again, &Summary::ci95_low));
  compare("stats.step_time_ns.ci95_high", field(stored, &Summary::ci95_high), field(again, &Summary::ci95_high));
  compare("derived.samples_per_s", stored.derived.samples_per_s, again.derived.samples_per_s);
  compare("derived.speedup", stored.derived.speedup, again.derived.speedup);
  compare("derived.efficiency", stored.derived.efficiency, again.derived.efficiency);
  return found;
}

std::vector<std::string> shape_problems(const CaseRecord& record) {
  std::vector<std::string> found;
  std::set<int> indices;
  for (const LaunchRecord& launch : record.launches) {
    const std::string name = "launch " + std::to_string(launch.index);
    if (!indices.insert(launch.index).second) found.push_back(name + " stands there twice");
    std::set<int> ranks;
    for (const RankRecord& rank : launch.ranks) ranks.insert(rank.rank);
    const auto expected = static_cast<size_t>(record.spec.processes);
    if (ranks.size() != launch.ranks.size()) found.push_back(name + " holds a rank twice");
    if (record.status == "ok" &&
        (ranks.size() != expected || *ranks.begin() != 0 || *ranks.rbegin() != record.spec.processes - 1))
      found.push_back(name + " does not hold ranks 0 to " + std::to_string(expected - 1));
  }
  return found;
}

}  // namespace

std::optional<std::string> contradiction_of(const Report& report) {
  std::set<std::string> ids;
  for (const CaseRecord& record : report.cases) {
    const std::string& id = record.spec.id;
    if (record.status == "ok" && (any_failed(record.checks) || unequal_parameters(record))) return id + " is ok, but its checks make it wrong";
    if (!ids.insert(id).second) return id + " stands there twice";
  }
  return std::nullopt;
}

std::vector<std::string> problems_of(const Report& report) {
  std::vector<std::string> problems;
  Report again = report;
  summarise(again);
  std::set<std::string> ids;
  for (size_t i = 0; i < report.cases.size(); ++i) {
    const CaseRecord& record = report.cases[i];
    auto found = shape_problems(record);
    for (auto& text : disagreements(record, again.cases[i])) found.push_back(std::move(text));
    if (!ids.insert(record.spec.id).second) found.push_back("the id stands there twice");
    if (report.status == "complete" && record.status == "interrupted") found.push_back("interrupted in a complete run");
    for (const auto& text : found) problems.push_back(record.spec.id + ": " + text);
  }
  return problems;
}

}  // namespace dpbench
