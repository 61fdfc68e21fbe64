#include "harness/front/commands/check/check_text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <optional>
#include <utility>

#include "harness/front/text/fold.h"
#include "harness/front/text/text.h"

namespace dpbench {
namespace {

// Limits of the text: names of failed checks per line, and groups of failed checks shown per strategy.
constexpr size_t named_checks = 6, named_causes = 5;

std::string number(std::optional<double> value) {
  if (!value) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", *value);
  return text;
}

bool could_be_checked(const CaseRecord& record) { return record.ok() || record.bad(); }

bool not_run(const CaseRecord& record) {
  return record.status == CaseStatus::failed || record.status == CaseStatus::skipped ||
         record.status == CaseStatus::unproven;
}

// Formats a case as one line per check, followed by the details of its failed checks.
std::string section_of(const CaseRecord& record) {
  std::string text = record.spec.id + "\n", details;
  std::vector<Cells> rows = {{"", "CHECK", "STATUS", "ERROR", "BOUND", "COMPARED"}};
  for (const auto& row : record.checks) {
    rows.push_back({"", one_line(row.name, 60), name_of(row.status), number(row.error), number(row.bound),
                    one_line(row.compared + (row.status == CheckStatus::skipped ? ": " + row.detail : ""), 200)});
    if (row.status == CheckStatus::failed)
      details += "  " + row.name + ": " + one_line(row.detail, 400) + "\n" +
                 (row.likely.empty() ? "" : "    looks like: " + one_line(row.likely, 300) + "\n");
  }
  if (rows.size() > 1) text += aligned(rows, {false, false, false, true, true, false});
  if (not_run(record))
    details += "  " + std::string(name_of(record.status)) + ": " + one_line(record.reason, 400) + "\n";
  return text + folded(details);
}

// Returns the description of a cause without its digits and without the text after the first " (", so that the same
// mistake has the same text in all cases.
std::string kind_of(const std::string& cause) {
  std::string kind;
  for (const char c : cause.substr(0, cause.find(" (")))
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  return kind;
}

// Failed checks of a strategy that look like the same mistake. The output shows the first of these checks in full.
struct Group {
  std::string kind;
  const CaseRecord* where;
  const CheckRow* first;
  std::vector<std::string> checks;
  std::vector<const CaseRecord*> cases;
};

template <class Items, class Item>
void add_once(Items& items, const Item& item) {
  if (std::ranges::find(items, item) == items.end()) items.push_back(item);
}

std::vector<Group> grouped(const std::vector<const CaseRecord*>& cases) {
  std::vector<Group> groups;
  for (const CaseRecord* record : cases)
    for (const CheckRow& row : record->checks) {
      if (row.status != CheckStatus::failed) continue;
      const std::string kind = row.likely.empty() ? row.name : kind_of(row.likely);
      auto group = std::ranges::find(groups, kind, &Group::kind);
      if (group == groups.end()) group = groups.insert(groups.end(), {kind, record, &row, {}, {}});
      add_once(group->checks, row.name);
      add_once(group->cases, record);
    }
  std::ranges::stable_sort(groups, std::greater<>(), [](const Group& group) { return group.checks.size(); });
  return groups;
}

std::string first_names(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), named_checks);
  std::string text = join({names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown)});
  if (shown < names.size()) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

std::string cases_text(size_t cases) { return std::to_string(cases) + (cases == 1 ? " case" : " cases"); }

std::string text_of(const Group& group) {
  const CheckRow& row = *group.first;
  std::string text = "  " + (row.likely.empty() ? "failed" : one_line(row.likely, 300)) + "\n";
  text += "    " + first_names(group.checks) + "; " + cases_text(group.cases.size()) + "\n";
  text += "    " + group.where->spec.id + ": " + row.name + ": " + one_line(row.detail, 400) + "\n";
  if (row.error) text += "    error " + number(row.error) + ", bound " + number(row.bound) + "\n";
  return text;
}

std::string failures_of(const std::string& strategy, const std::vector<const CaseRecord*>& cases) {
  const std::vector<Group> groups = grouped(cases);
  if (groups.empty()) return "";
  std::string text = "\n" + strategy + " looks like:\n";
  for (size_t i = 0; i < std::min(groups.size(), named_causes); ++i) text += text_of(groups[i]);
  if (groups.size() > named_causes)
    text +=
        "  and " + std::to_string(groups.size() - named_causes) + " other mistakes, which often follow from these\n";
  return text;
}

// Reasons why cases were not checked, each with its number of cases.
using Reasons = std::vector<std::pair<std::string, size_t>>;

Reasons reasons_of(const std::vector<const CaseRecord*>& cases) {
  Reasons reasons;
  for (const CaseRecord* record : cases) {
    if (!not_run(*record)) continue;
    const std::string reason = std::string(name_of(record->status)) + ": " + one_line(record->reason, 400);
    const auto known = std::ranges::find(reasons, reason, &Reasons::value_type::first);
    if (known == reasons.end())
      reasons.emplace_back(reason, 1);
    else
      ++known->second;
  }
  return reasons;
}

std::string text_of(const Reasons& reasons) {
  std::string text;
  for (const auto& [reason, cases] : reasons) text += "  " + cases_text(cases) + " " + reason + "\n";
  return text;
}

// Returns the most frequent reason why cases could not be checked, e.g. " (38 skipped: needs a GPU)"; empty if all
// could.
std::string main_reason(const Report& report) {
  std::vector<const CaseRecord*> unchecked;
  for (const CaseRecord& record : report.cases)
    if (!could_be_checked(record)) unchecked.push_back(&record);
  const Reasons reasons = reasons_of(unchecked);
  const auto most = std::ranges::max_element(reasons, {}, &Reasons::value_type::second);
  if (most == reasons.end()) return "";
  return " (" + std::to_string(most->second) + " " + one_line(most->first, 160) + ")";
}

// Returns the number of cases that were checked in part and what the strategy refused in the first of them, e.g.
// ", 3 of these in part (refused: needs float32)"; empty if there are none.
std::string in_part_text(const Report& report) {
  std::string reason;
  int64_t cases = 0;
  for (const CaseRecord& record : report.cases) {
    if (!checked_in_part(record)) continue;
    ++cases;
    for (const CheckRow& row : record.checks)
      if (reason.empty() && row.status == CheckStatus::skipped && row.detail.starts_with("refused: "))
        reason = " (" + one_line(row.detail, 160) + ")";
  }
  return cases == 0 ? "" : ", " + std::to_string(cases) + " of these in part" + reason;
}

size_t count_of(const std::vector<const CaseRecord*>& cases, CheckStatus status) {
  size_t found = 0;
  for (const CaseRecord* record : cases)
    found += static_cast<size_t>(std::ranges::count(record->checks, status, &CheckRow::status));
  return found;
}

}  // namespace

int count_checks(const Report& report, CheckStatus status) {
  int found = 0;
  for (const CaseRecord& record : report.cases)
    found += static_cast<int>(std::ranges::count(record.checks, status, &CheckRow::status));
  return found;
}

bool checked_in_part(const CaseRecord& record) {
  return could_be_checked(record) && record.refusal >= Refusal::scenario;
}

std::string check_counts(const Report& report) {
  const auto checked = std::ranges::count_if(report.cases, could_be_checked);
  const auto refused = std::ranges::count_if(report.cases, [](const CaseRecord& record) {
    return !could_be_checked(record) && record.refusal != Refusal::none;
  });
  return std::to_string(checked) + " of " + std::to_string(report.cases.size()) + " cases could be checked" +
         in_part_text(report) + (refused > 0 ? ", " + std::to_string(refused) + " refused" : "") + main_reason(report) +
         ": " + std::to_string(count_checks(report, CheckStatus::passed)) + " checks passed, " +
         std::to_string(count_checks(report, CheckStatus::failed)) + " failed, " +
         std::to_string(count_checks(report, CheckStatus::skipped)) + " skipped; seed " +
         std::to_string(report.config.value("seed", uint64_t{1}));
}

std::string check_summary(const Report& report) {
  std::vector<std::string> names;
  for (const CaseRecord& record : report.cases) add_once(names, record.spec.strategy);
  std::ranges::sort(names);
  std::vector<Cells> rows = {{"STRATEGY", "CASES", "PASSED", "FAILED", "SKIPPED"}};
  std::string details;
  for (const std::string& name : names) {
    std::vector<const CaseRecord*> cases;
    for (const CaseRecord& record : report.cases)
      if (record.spec.strategy == name) cases.push_back(&record);
    rows.push_back({name, std::to_string(cases.size()), std::to_string(count_of(cases, CheckStatus::passed)),
                    std::to_string(count_of(cases, CheckStatus::failed)),
                    std::to_string(count_of(cases, CheckStatus::skipped))});
    details += failures_of(name, cases);
    if (const std::string not_run = text_of(reasons_of(cases)); !not_run.empty())
      details += "\n" + name + ":\n" + not_run;
  }
  return folded(check_counts(report) + "\n\n") + aligned(rows, {false, true, true, true, true}) +
         folded(details + "\n--verbose prints every check with its error and bound.\n");
}

std::string every_check(const Report& report) {
  std::string text = folded(check_counts(report) + "\n");
  for (const auto& record : report.cases) text += "\n" + section_of(record);
  return text;
}

std::vector<Cells> check_rows(const Report& report) {
  std::vector<Cells> rows = {{"CASE", "CHECK", "STATUS", "ERROR", "BOUND", "COMPARED", "DETAIL"}};
  for (const auto& record : report.cases) {
    for (const auto& row : record.checks) {
      const std::string likely = row.likely.empty() ? "" : " · looks like: " + row.likely;
      rows.push_back({record.spec.id, row.name, name_of(row.status), number(row.error), number(row.bound), row.compared,
                      one_line(row.detail + likely, 300)});
    }
    if (not_run(record))
      rows.push_back({record.spec.id, "-", name_of(record.status), "-", "-", "-", one_line(record.reason, 300)});
  }
  for (auto& row : rows)
    for (auto& cell : row) cell = one_line(cell, 300);
  return rows;
}

}  // namespace dpbench
