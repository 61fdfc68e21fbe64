#include "harness/front/plan/plan.h"

#include <algorithm>
#include <map>
#include <regex>

#include "harness/front/plan/plan_steps.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr size_t most_cases = 10000;

// Rows in the order in which they came, one for each id.
class Rows {
 public:
  void add(Row row) {
    const auto [known, is_new] = places_.try_emplace(row.spec.id, rows_.size());
    if (!is_new) {
      rows_[known->second].added &= row.added;
      return;
    }
    rows_.push_back(std::move(row));
    if (rows_.size() > most_cases)
      throw UsageError("this makes more than " + std::to_string(most_cases) + " cases; choose fewer values");
  }
  const std::vector<Row>& all() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::map<std::string, size_t> places_;  // by id
};

void refuse_nothing(const std::vector<Row>& rows, const Selection& what) {
  if (rows.empty())
    throw UsageError("nothing matched" + (what.filter.empty() ? "" : " --filter '" + what.filter + "'") +
                     "; --dry-run without it shows every case");
  const Row* refused = nullptr;
  for (const auto& row : rows) {
    if (!row.added && row.why_not.empty()) return;
    if (!refused && !row.why_not.empty()) refused = &row;
  }
  if (!refused) return;
  if (refused->unavailable) throw Unavailable(refused->why_not);
  throw UsageError(refused->why_not);
}

Plan plan_of(const std::vector<Row>& rows, const Selection& what, const Machine& machine) {
  Plan plan;
  int largest = 1;
  for (const auto& row : rows)
    if (row.why_not.empty()) largest = std::max(largest, row.spec.world);
  plan.threads = what.threads > 0 ? what.threads : std::max(1, machine.cores / largest);
  for (auto row : rows) {
    row.spec.threads = plan.threads;
    if (!row.why_not.empty()) {
      plan.skipped.push_back({row.spec, row.why_not});
      continue;
    }
    plan.cases.push_back(row.spec);
    if (!row.note.empty()) plan.notes[row.spec.id] = row.note;
  }
  return plan;
}

}  // namespace

Choice choose(const Selection& what, const Catalogue& catalogue, const Machine& machine) {
  Choice choice{.strategies = chosen_strategies(what, catalogue),
                .workloads = chosen_workloads(what, catalogue),
                .places = chosen_places(what, machine),
                .backends = chosen_backends(what, catalogue),
                .axes = {}};
  choice.axes = parse_params(what.params, choice.strategies);
  return choice;
}

// A baseline stays as long as a row that it is there for does.
std::vector<Row> filtered(const std::vector<Row>& rows, const Selection& what) {
  if (what.filter.empty()) return rows;
  const std::regex wanted(what.filter);
  const auto matches = [&](const Row& row) { return std::regex_search(row.spec.id, wanted); };
  const auto serves = [&](const Row& row) {
    return what.baseline && row.spec.baseline && std::ranges::any_of(rows, [&](const Row& other) {
             return matches(other) && same_setting(row.spec, other.spec, {.strategy = true, .world = true});
           });
  };
  std::vector<Row> left;
  for (const auto& row : rows)
    if (matches(row) || serves(row)) left.push_back(row);
  return left;
}

Plan make_plan(const Selection& what, const Catalogue& catalogue, const Machine& machine) {
  const Choice choice = choose(what, catalogue, machine);
  Rows rows;
  expand(what, catalogue, choice, [&](Row row) {
    settle_backend(row, what, catalogue, machine);
    judge(row, what);
    row.spec.id = case_id(row.spec);
    rows.add(std::move(row));
  });
  const std::vector<Row> left = filtered(rows.all(), what);
  refuse_nothing(left, what);
  return plan_of(left, what, machine);
}

}  // namespace dpbench
