#include "harness/report/record/report.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "harness/report/record/checks.h"
#include "workloads/base/error.h"

namespace dpbench {

CaseIndex by_id(const Report& report) {
  CaseIndex index;
  for (const CaseRecord& record : report.cases) index.emplace(record.spec.id, &record);
  return index;
}

int launches_of(const Report& report) {
  size_t count = 0;
  for (const CaseRecord& record : report.cases) count += record.launches.size();
  return static_cast<int>(count);
}

std::vector<double> sample_step_ns(const LaunchRecord& launch) {
  if (launch.ranks.empty()) return {};
  size_t count = launch.ranks.front().samples_ns.size();
  for (const RankRecord& rank : launch.ranks) count = std::min(count, rank.samples_ns.size());
  std::vector<double> slowest(count, 0);
  for (const RankRecord& rank : launch.ranks) {
    if (count > 0) check(rank.steps_per_sample > 0, "a block needs at least one step");
    for (size_t i = 0; i < count; ++i)
      slowest[i] =
          std::max(slowest[i], static_cast<double>(rank.samples_ns[i]) / static_cast<double>(rank.steps_per_sample));
  }
  return slowest;
}

int64_t slowest_ns(const std::vector<RankRecord>& block) {
  int64_t slowest = 0;
  for (const RankRecord& rank : block)
    for (const int64_t ns : rank.samples_ns) slowest = std::max(slowest, ns);
  return slowest;
}

double rows_per_step(const CaseRecord& record) {
  std::vector<double> rows;
  for (const LaunchRecord& launch : record.launches)
    if (!launch.ranks.empty() && launch.ranks.front().rows_per_step > 0)
      rows.push_back(launch.ranks.front().rows_per_step);
  return rows.empty() ? static_cast<double>(record.spec.global_batch()) : median(rows);
}

std::map<std::string, double> CaseRecord::mean_phases_ns() const {
  std::map<std::string, double> sums;
  double ranks = 0;
  for (const LaunchRecord& launch : launches)
    for (const RankRecord& rank : launch.ranks) {
      for (const auto& [name, ns] : rank.phases_ns) sums[name] += ns;
      ranks += rank.phases_ns.empty() ? 0 : 1;
    }
  for (auto& [name, ns] : sums) ns /= ranks;
  return sums;
}

std::optional<double> CaseRecord::mean_watched_step_ns() const {
  double sum = 0, n = 0;
  for (const LaunchRecord& launch : launches)
    for (const RankRecord& rank : launch.ranks)
      if (rank.profile && !rank.profile->disturbed) sum += rank.profile->step_ns, ++n;
  return n > 0 ? std::optional(sum / n) : std::nullopt;
}

bool any_failed(const std::vector<CheckRow>& checks) {
  return std::any_of(checks.begin(), checks.end(),
                     [](const CheckRow& row) { return row.status == CheckStatus::failed; });
}

void add_checks(std::vector<CheckRow>& all, std::vector<CheckRow> more) {
  for (CheckRow& row : more) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const CheckRow& one) { return one.name == row.name; });
    if (same == all.end())
      all.push_back(std::move(row));
    else if (same->status != CheckStatus::failed &&
             std::pair(severity_of(row), row.error) > std::pair(severity_of(*same), same->error))
      *same = std::move(row);
  }
}

std::optional<std::string> why_unproven(const std::vector<CheckRow>& checks) {
  // A skipped check with a likely cause was skipped through the strategy's own fault.
  for (const CheckRow& row : checks)
    if (row.status == CheckStatus::skipped && !row.likely.empty())
      return "check " + row.name + " was skipped: " + row.detail + ": " + row.likely;
  const CheckRow* skipped = nullptr;
  for (const CheckRow& row : checks) {
    const CheckMeaning* known = find_check(row.name);
    if (!known || !known->proves_gradient) continue;
    if (row.status != CheckStatus::skipped) return std::nullopt;
    if (!skipped) skipped = &row;
  }
  if (!skipped) return std::nullopt;
  return "no gradient could be judged: check " + skipped->name + " was skipped: " + skipped->compared +
         (skipped->detail.empty() ? "" : ": " + skipped->detail);
}

std::optional<std::string> missing_audit(const std::vector<CheckRow>& checks) {
  for (const CheckRow& row : checks)
    if (row.name == "audit" && row.status == CheckStatus::skipped) return "not audited: " + row.detail;
  return std::nullopt;
}

std::optional<std::string> unequal_parameters(const CaseRecord& record) {
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      if (rank.parameters_hash != launch.ranks.front().parameters_hash)
        return "launch " + std::to_string(launch.index) + ": rank " + std::to_string(rank.rank) + " has " +
               rank.parameters_hash + ", rank " + std::to_string(launch.ranks.front().rank) + " has " +
               launch.ranks.front().parameters_hash;
  return std::nullopt;
}

namespace {

// Returns the step in a failed check's detail text, as in "rank 1, step 2, scenario even". A check without a step gets
// the largest number, because it judges a whole run and sorts last.
int64_t step_of(const CheckRow& row) {
  constexpr std::string_view mark = ", step ";
  const size_t at = row.detail.rfind(mark);
  int64_t step = std::numeric_limits<int64_t>::max();
  if (at == std::string::npos) return step;
  const char* begin = row.detail.data() + at + mark.size();
  std::from_chars(begin, row.detail.data() + row.detail.size(), step);
  return step;
}

// Returns the sort key that orders failed checks from cause to effect. An exception and a wrong initial state come
// first, because they explain everything else.
std::pair<int64_t, Effect> order_of_cause(const CheckRow& row) {
  const CheckMeaning* known = find_check(row.name);
  const Effect effect = known ? known->effect : Effect::cause;
  return {effect == Effect::explains_all ? -1 : step_of(row), effect};
}

}  // namespace

const CheckRow* root_failure(const std::vector<CheckRow>& checks) {
  const CheckRow* root = nullptr;
  for (const CheckRow& row : checks)
    if (row.status == CheckStatus::failed && (!root || order_of_cause(row) < order_of_cause(*root))) root = &row;
  return root;
}

std::optional<CheckRow> failing_check(const CaseRecord& record) {
  if (const CheckRow* root = root_failure(record.checks)) return *root;
  const auto detail = unequal_parameters(record);
  if (!detail) return std::nullopt;
  return CheckRow{.name = "equal-parameters",
                  .status = CheckStatus::failed,
                  .compared = "parameters after timing, across ranks",
                  .detail = *detail,
                  .likely = "gradients were not reduced on every rank, or a rank skipped a step"};
}

}  // namespace dpbench
