#include "harness/front/plan/plan.h"

#include <algorithm>
#include <map>

#include "harness/front/plan/plan_steps.h"
#include "harness/front/text/text.h"
#include "harness/report/text/pattern.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr size_t max_cases = 10000;

// Collects planned cases (rows) in insertion order, and keeps one row for each case id.
class Rows {
 public:
  void add(Row row) {
    const auto [known, is_new] = index_by_id_.try_emplace(row.spec.id, rows_.size());
    if (!is_new) {
      rows_[known->second].added &= row.added;
      return;
    }
    rows_.push_back(std::move(row));
    if (rows_.size() > max_cases)
      throw UsageError("the selection has more than " + std::to_string(max_cases) + " cases. Choose fewer values");
  }
  const std::vector<Row>& all() const { return rows_; }

 private:
  std::vector<Row> rows_;
  std::map<std::string, size_t> index_by_id_;
};

// Throws UsageError or Unavailable if none of the cases that the user asked for can run.
void require_runnable(const std::vector<Row>& rows, const Selection& selection) {
  if (rows.empty())
    throw UsageError("nothing matched" + (selection.filter.empty() ? "" : " --filter '" + selection.filter + "'") +
                     ". --dry-run without --filter lists every case");
  const Row* refused = nullptr;
  for (const auto& row : rows) {
    if (!row.added && row.skip_reason.empty()) return;
    if (!refused && !row.skip_reason.empty()) refused = &row;
  }
  if (!refused) return;
  if (refused->unavailable) throw Unavailable(refused->skip_reason);
  throw UsageError(refused->skip_reason);
}

// Returns a note on the declarations with which checks demand less of a strategy than of most, such as "declares
// repeatable=no"; empty if it has none.
std::string unusual_declarations(const StrategyEntry& strategy) {
  static const std::map<std::string, std::string> usual = {{"repeatable", "yes"},
                                                           {"reduced_in", "-"},
                                                           {"own", "-"},
                                                           {"skips_non_finite", "no"},
                                                           {"reduces_each_micro_batch", "no"}};
  std::string text;
  for (const auto& [name, value, summary] : strategy.declares)
    if (const auto found = usual.find(name); found != usual.end() && found->second != value)
      text += (text.empty() ? "declares " : ", ") + name + "=" + value;
  return text;
}

Plan plan_of(const std::vector<Row>& rows, const Selection& selection, const Machine& machine) {
  Plan plan;
  int largest = 1;
  for (const auto& row : rows)
    if (row.skip_reason.empty()) largest = std::max(largest, row.spec.world);
  plan.threads = selection.threads > 0 ? selection.threads : std::max(1, machine.cores / largest);
  for (auto row : rows) {
    row.spec.threads = plan.threads;
    if (!row.skip_reason.empty()) {
      plan.skipped.push_back({row.spec, row.skip_reason});
      continue;
    }
    plan.cases.push_back(row.spec);
    const std::string declared = unusual_declarations(*row.strategy);
    row.note += (row.note.empty() || declared.empty() ? "" : "; ") + declared;
    if (!row.note.empty()) plan.notes[row.spec.id] = row.note;
  }
  return plan;
}

// Throws UsageError if no chosen strategy uses all axes of a mesh.
void require_users_of_axes(const ResolvedSelection& resolved, const Catalogue& catalogue) {
  for (const Place& place : resolved.places) {
    const MeshShape mesh = parse_mesh(place.mesh);
    if (std::ranges::any_of(resolved.strategies, [&](const auto* one) { return one->missing_axis(mesh).empty(); }))
      continue;
    std::string axes;
    for (const StrategyEntry* strategy : resolved.strategies)
      axes += (axes.empty() ? "" : ", ") + strategy->name + ": " + join(strategy->axes, "+");
    const auto other = std::ranges::find_if(catalogue.strategies,
                                            [&](const StrategyEntry& one) { return one.missing_axis(mesh).empty(); });
    throw UsageError("--mesh " + place.mesh + ": no strategy uses all of these axes (" + axes + ")" +
                     (other == catalogue.strategies.end() ? "" : ". Use --strategy " + other->name));
  }
}

}  // namespace

ResolvedSelection resolve(const Selection& selection, const Catalogue& catalogue, const Machine& machine) {
  ResolvedSelection resolved{.strategies = chosen_strategies(selection, catalogue),
                             .workloads = chosen_workloads(selection, catalogue),
                             .places = chosen_places(selection, machine),
                             .backends = chosen_backends(selection, catalogue),
                             .axes = {}};
  require_users_of_axes(resolved, catalogue);
  resolved.axes = parse_params(selection.params, resolved.strategies);
  resolved.reference = chosen_reference(selection, catalogue);
  return resolved;
}

// Returns the cases (rows) that match --filter. Keeps a baseline or reference too if a matching row is compared with
// it.
std::vector<Row> filtered(const std::vector<Row>& rows, const Selection& selection) {
  if (selection.filter.empty()) return rows;
  const NamePattern pattern(selection.filter);
  const auto matches = [&](const Row& row) { return pattern.matches(row.spec.id); };
  const Reference& reference = selection.reference;
  const auto is_needed_reference = [&](const Row& row) {
    return std::ranges::any_of(rows, [&](const Row& other) {
      return matches(other) && ((selection.baseline && is_reference_of(row.spec, other.spec, {})) ||
                                (!reference.strategy.empty() && is_reference_of(row.spec, other.spec, reference)));
    });
  };
  std::vector<Row> kept;
  for (const auto& row : rows)
    if (matches(row) || is_needed_reference(row)) kept.push_back(row);
  return kept;
}

Plan make_plan(const Selection& selection, const Catalogue& catalogue, const Machine& machine) {
  const ResolvedSelection resolved = resolve(selection, catalogue, machine);
  Rows rows;
  expand(selection, catalogue, resolved, [&](Row row) {
    settle_backend(row, selection, catalogue, machine);
    judge(row, selection, catalogue);
    row.spec.id = case_id(row.spec);
    rows.add(std::move(row));
  });
  const std::vector<Row> kept = filtered(rows.all(), selection);
  require_runnable(kept, selection);
  return plan_of(kept, selection, machine);
}

}  // namespace dpbench
