#include "harness/report/report.h"

#include <algorithm>
#include <tuple>

#include "harness/report/derived.h"
#include "harness/report/notices.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

// Each launch's slowest rank, then the middle launch: percentiles of single steps, as the ranks read their clocks.
std::optional<double> slowest_rank_percentile(const CaseRecord& record, int64_t RankRecord::*percentile) {
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
  const auto failing = record.status == "ok" ? failing_check(record) : std::nullopt;
  if (!failing) return;
  if (!any_failed(record.checks)) record.checks.push_back(*failing);
  record.status = "wrong";
  record.reason = "check " + failing->name + " failed" + (failing->detail.empty() ? "" : ": " + failing->detail);
}

void summarise(CaseRecord& record, const HostOfRank& hosts) {
  record.step_time_ns.reset();
  record.derived = {};
  record.notices.clear();
  if (record.status != "ok") return;
  std::vector<std::vector<double>> samples;
  for (const LaunchRecord& launch : record.launches) samples.push_back(sample_step_ns(launch));
  if (launch_medians(samples).empty()) return;
  Summary summary = summarise_samples(samples);
  summary.p90 = slowest_rank_percentile(record, &RankRecord::step_p90_ns).value_or(summary.p90);
  summary.p99 = slowest_rank_percentile(record, &RankRecord::step_p99_ns).value_or(summary.p99);
  record.step_time_ns = std::move(summary);
  derive(record, hosts);
  record.notices = notices_of(record);
}

}  // namespace

bool is_baseline(const CaseSpec& spec) { return spec.strategy == (spec.device == "cuda" ? "gpu" : "cpu"); }

const CaseRecord* baseline_of(const Report& report, const CaseSpec& spec) {
  const auto key = [](const CaseSpec& s) {
    return std::tie(s.workload, s.device, s.dtype, s.scale, s.accumulate, s.clip_norm, s.data_dir, s.threads);
  };
  const int64_t rows = spec.scaling == "strong" ? spec.global_batch() : spec.batch;
  for (const CaseRecord& record : report.cases)
    if (is_baseline(record.spec) && record.status == "ok" && record.step_time_ns && key(record.spec) == key(spec) &&
        record.spec.global_batch() == rows)
      return &record;
  return nullptr;
}

CaseIndex by_id(const Report& report) {
  CaseIndex index;
  for (const CaseRecord& record : report.cases) index.emplace(record.spec.id, &record);
  return index;
}

std::vector<double> sample_step_ns(const LaunchRecord& launch) {
  if (launch.ranks.empty()) return {};
  size_t count = launch.ranks.front().samples_ns.size();
  for (const RankRecord& rank : launch.ranks) count = std::min(count, rank.samples_ns.size());
  std::vector<double> slowest(count, 0);
  for (const RankRecord& rank : launch.ranks) {
    if (count > 0) check(rank.steps_per_sample > 0, "a sample of no steps");
    for (size_t i = 0; i < count; ++i)
      slowest[i] =
          std::max(slowest[i], static_cast<double>(rank.samples_ns[i]) / static_cast<double>(rank.steps_per_sample));
  }
  return slowest;
}

double rows_per_step(const CaseRecord& record) {
  std::vector<double> rows;
  for (const LaunchRecord& launch : record.launches)
    if (!launch.ranks.empty() && launch.ranks.front().rows_per_step > 0)
      rows.push_back(launch.ranks.front().rows_per_step);
  return rows.empty() ? static_cast<double>(record.spec.global_batch()) : median(rows);
}

std::map<std::string, double> mean_phases_ns(const CaseRecord& record) {
  std::map<std::string, double> sums;
  double ranks = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks) {
      for (const auto& [name, ns] : rank.phases_ns) sums[name] += ns;
      ranks += rank.phases_ns.empty() ? 0 : 1;
    }
  for (auto& [name, ns] : sums) ns /= ranks;
  return sums;
}

bool any_failed(const std::vector<CheckRow>& checks) {
  return std::any_of(checks.begin(), checks.end(), [](const CheckRow& row) { return row.status == "failed"; });
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

std::optional<CheckRow> failing_check(const CaseRecord& record) {
  for (const CheckRow& row : record.checks)
    if (row.status == "failed") return row;
  const auto detail = unequal_parameters(record);
  if (!detail) return std::nullopt;
  return CheckRow{.name = "equal-parameters",
                  .status = "failed",
                  .compared = "parameters after timing, across ranks",
                  .detail = *detail,
                  .likely = "gradients were not reduced on every rank, or a rank skipped a step"};
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
