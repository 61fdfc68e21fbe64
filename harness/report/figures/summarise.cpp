#include "harness/report/figures/summarise.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "harness/report/figures/derived.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/figures/sample_notices.h"

namespace dpbench {
namespace {

// Returns a percentile of the times of single steps. Each launch (start of the case's processes) gives the percentile
// of its slowest rank; the result is the median over launches.
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

// Marks an ok case as disturbed if it has more disturbed blocks than counted ones.
void judge_disturbance(CaseRecord& record) {
  size_t counted = 0;
  for (const LaunchRecord& launch : record.launches)
    if (!launch.ranks.empty()) counted += launch.ranks.front().samples_ns.size();
  const auto disturbed = static_cast<size_t>(disturbed_blocks(record));
  if (!record.ok() || disturbed <= counted) return;
  record.status = CaseStatus::disturbed;
  record.reason = "the replicas did not have their cores in " + std::to_string(disturbed) + " of " +
                  std::to_string(counted + disturbed) + " blocks";
}

void judge(CaseRecord& record) {
  const auto failing = record.ok() ? failing_check(record) : std::nullopt;
  const auto unproven = record.ok() && !failing ? why_unproven(record.checks) : std::nullopt;
  if (unproven) {
    record.status = CaseStatus::unproven;
    record.reason = *unproven;
  }
  if (!failing) return judge_disturbance(record);
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
    if (record.ok() && record.step_time_ns && is_reference_of(record.spec, spec, {})) return &record;
  return nullptr;
}

std::string reference_name(const Report& report) {
  const auto name = report.config.find("reference");
  return name != report.config.end() && name->is_string() ? name->get<std::string>() : "";
}

const CaseRecord* reference_of(const Report& report, const CaseSpec& spec) {
  Reference reference{.strategy = reference_name(report)};
  if (const auto batch = report.config.find("reference_batch");
      batch != report.config.end() && batch->is_number_integer())
    reference.batch = batch->get<int64_t>();
  // Only the first case that matches the reference counts, even if it has no result: its blocks alternated with the
  // blocks of case `spec`.
  for (const CaseRecord& record : report.cases)
    if (record.status != CaseStatus::skipped && is_reference_of(record.spec, spec, reference))
      return record.ok() && record.step_time_ns ? &record : nullptr;
  return nullptr;
}

void summarise(Report& report) {
  const HostOfRank hosts = hosts_of_ranks(report.env);
  for (CaseRecord& record : report.cases) {
    judge(record);
    summarise(record, hosts);
  }
  derive_speedups(report);
  report.disturbance = disturbance_line(report);
}

}  // namespace dpbench
