#include "harness/report/figures/summarise.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "harness/report/figures/derived.h"
#include "harness/report/figures/sample_notices.h"

namespace dpbench {
namespace {

// Returns a percentile of the times of single steps: of the slowest rank in each launch (start of the case's
// processes), then the median over launches.
std::optional<double> slowest_rank_percentile(const CaseRecord& record, int64_t RankRecord::* percentile) {
  std::vector<double> slowest;
  for (const LaunchRecord& launch : record.launches) {
    int64_t ns = 0;
    for (const RankRecord& rank : launch.ranks) ns = std::max(ns, rank.*percentile);
    if (ns > 0) slowest.push_back(static_cast<double>(ns));
  }
  if (slowest.empty()) return std::nullopt;
  return median(slowest);
}

void judge(CaseRecord& record) {
  const auto failing = record.ok() ? failing_check(record) : std::nullopt;
  if (!failing) return;
  if (!any_failed(record.checks)) record.checks.push_back(*failing);
  record.status = CaseStatus::wrong;
  record.reason = "check " + failing->name + " failed" + (failing->detail.empty() ? "" : ": " + failing->detail);
}

void summarise(CaseRecord& record, const HostOfRank& hosts) {
  record.step_time_ns.reset();
  record.derived = {};
  record.notices.clear();
  if (!record.ok()) return;
  std::vector<std::vector<double>> samples;
  for (const LaunchRecord& launch : record.launches) samples.push_back(sample_step_ns(launch));
  if (launch_medians(samples).empty()) return;
  Summary summary = summarise_samples(samples);
  summary.p90 = slowest_rank_percentile(record, &RankRecord::step_p90_ns).value_or(summary.p90);
  summary.p99 = slowest_rank_percentile(record, &RankRecord::step_p99_ns).value_or(summary.p99);
  record.step_time_ns = summary;
  derive(record, hosts);
  record.notices = notices_of(record);
}

}  // namespace

const CaseRecord* baseline_of(const Report& report, const CaseSpec& spec) {
  for (const CaseRecord& record : report.cases)
    if (record.spec.baseline && record.ok() && record.step_time_ns &&
        same_setting(record.spec, spec, {.strategy = true, .world = true}))
      return &record;
  return nullptr;
}

void summarise(Report& report) {
  const HostOfRank hosts = hosts_of_ranks(report.env);
  for (CaseRecord& record : report.cases) {
    judge(record);
    summarise(record, hosts);
  }
  derive_speedups(report);
}

}  // namespace dpbench
