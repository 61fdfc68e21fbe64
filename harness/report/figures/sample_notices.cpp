#include "harness/report/figures/sample_notices.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>

namespace dpbench {
namespace {

using Launches = std::vector<std::vector<double>>;

// Limits for notices; a finding must exceed both of its limits. A launch is a start of the case's processes; it times
// several blocks of steps. Outlier: a block's deviation from its launch's median, in standard deviations and as a share
// of the median. Trend: the score of the Mann-Kendall test, in its standard deviations, and the relative change of
// block times. Launches that differ: the range of their medians, as a share and as a multiple of the spread within a
// launch.
constexpr double outlier_sigmas = 10, outlier_share = 0.05;
constexpr double trend_sigmas = 3, trend_share = 0.02;
constexpr double apart_share = 0.10, apart_times_noise = 3;

// Limits for reporting that block times (a block is a timed run of steps) form two clusters. Each cluster holds at
// least a fifth of the blocks. The gap between the clusters is wide relative to the spread within each, and at least a
// share of the lower cluster's median.
constexpr double cluster_share = 0.2, gap_sigmas = 6, gap_share = 0.05;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share);
  return text;
}

std::optional<std::string> outliers(const Launches& launches) {
  size_t found = 0, all = 0;
  double worst = 0;
  for (const auto& launch : launches) {
    const double middle = median(launch), sigma = mad_to_sigma * mad(launch);
    for (const double value : launch) {
      const double above = value - middle;
      if (above <= outlier_sigmas * sigma || above <= outlier_share * middle) continue;
      ++found;
      worst = std::max(worst, above / middle);
    }
    all += launch.size();
  }
  if (found == 0) return std::nullopt;
  return std::to_string(found) + " of " + std::to_string(all) + " blocks are outliers, up to " + percent(worst) +
         " above the median";
}

// Returns a notice if blocks get slower or faster within the launches. Mann-Kendall test: each pair of blocks of a
// launch counts +1 if the later block is slower, -1 if it is faster.
std::optional<std::string> trend(const Launches& launches) {
  double score = 0, variance = 0;
  std::vector<double> changes;
  for (const auto& launch : launches) {
    const auto n = static_cast<double>(launch.size());
    if (launch.size() < 4) continue;
    for (size_t i = 0; i < launch.size(); ++i)
      for (size_t j = i + 1; j < launch.size(); ++j) score += (launch[j] > launch[i]) - (launch[j] < launch[i]);
    variance += n * (n - 1) * (2 * n + 5) / 18;
    const std::span<const double> all(launch);
    changes.push_back(median(all.last(launch.size() / 2)) / median(all.first(launch.size() / 2)) - 1);
  }
  if (changes.empty() || std::abs(score) <= trend_sigmas * std::sqrt(variance)) return std::nullopt;
  const double change = median(changes);
  if (std::abs(change) < trend_share) return std::nullopt;
  return change > 0 ? "blocks get slower within a launch, by " + percent(change) + ": throttling, or something grows"
                    : "blocks get faster within a launch, by " + percent(-change) + ": too little --warmup";
}

std::optional<std::string> launch_spread(const Launches& launches) {
  const auto medians = launch_medians(launches);
  if (medians.size() < 3) return std::nullopt;
  std::vector<double> inside;
  for (const auto& launch : launches) inside.push_back(mad_to_sigma * mad(launch) / median(launch));
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  const double range = *most / *least - 1;
  if (range < apart_share || range < apart_times_noise * median(inside)) return std::nullopt;
  return "launches differ by " + percent(range) +
         ", far more than the blocks within one: only more launches narrow the interval";
}

std::optional<std::string> two_clusters(const Launches& launches) {
  std::vector<double> all;
  for (const auto& launch : launches) all.insert(all.end(), launch.begin(), launch.end());
  std::sort(all.begin(), all.end());
  const auto least = static_cast<size_t>(std::ceil(cluster_share * static_cast<double>(all.size())));
  if (all.size() < 10) return std::nullopt;
  size_t cut = least;  // index of the first block of the upper (slower) cluster
  for (size_t i = least; i + least <= all.size(); ++i)
    if (all[i] - all[i - 1] > all[cut] - all[cut - 1]) cut = i;
  const std::span<const double> values(all), low = values.first(cut), high = values.subspan(cut);
  const double gap = high.front() - low.back(), spread = mad_to_sigma * std::max(mad(low), mad(high));
  if (gap <= gap_sigmas * spread || gap <= gap_share * median(low)) return std::nullopt;
  return "blocks fall into two clusters, " + percent(median(high) / median(low) - 1) +
         " apart: something switches now and then (a clock, a thread's core, another process)";
}

std::optional<std::string> straggling(const CaseRecord& record) {
  if (!record.derived.straggler) return std::nullopt;
  return "rank " + std::to_string(*record.derived.straggler) + " is a straggler: busy " +
         percent(*record.derived.skew) + " longer than the others, which wait for it";
}

// Returns a notice if GPUs were throttled while the case was measured; else nullopt. The notice names the first of
// these GPUs, the number of the others, and all reasons for the throttling.
std::optional<std::string> throttling(const CaseRecord& record) {
  std::vector<std::string> gpus, reasons;
  const auto add_new = [](std::vector<std::string>& list, const std::string& text) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  };
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      for (const GpuCounters& gpu : rank.gpus) {
        if (gpu.throttled_readings == 0) continue;
        add_new(gpus, "rank " + std::to_string(rank.rank) + "'s " + gpu.pci_bus);
        for (const std::string& reason : gpu.throttle_reasons) add_new(reasons, reason);
      }
  if (gpus.empty()) return std::nullopt;
  std::string why;
  for (const std::string& reason : reasons) why += (why.empty() ? "" : ", ") + reason;
  return "throttled in " + percent(record.derived.throttled_share.value_or(0)) + " of the readings (" + gpus.front() +
         (gpus.size() > 1 ? " and " + std::to_string(gpus.size() - 1) + " more" : "") + "; " + why +
         "): cool the GPU, or raise its power limit (nvidia-smi -pl)";
}

// Returns the warnings that the case's ranks reported, without duplicates.
std::vector<std::string> rank_warnings(const CaseRecord& record) {
  std::vector<std::string> warnings;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      for (const std::string& text : rank.warnings)
        if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(text);
  return warnings;
}

// Returns a notice if other programs took the cores in the profiled steps of every launch, because the case then has no
// times from profiles.
std::optional<std::string> disturbed_profiles(const CaseRecord& record) {
  bool found = false;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks) {
      if (rank.profile && !rank.profile->disturbed) return std::nullopt;
      found = found || rank.profile;
    }
  if (!found) return std::nullopt;
  return "no phases, no COMM: the replicas did not have their cores in the profiled steps";
}

}  // namespace

std::vector<std::string> notices_of(const CaseRecord& record) {
  Launches launches;
  for (const LaunchRecord& launch : record.launches)
    if (auto samples = sample_step_ns(launch); !samples.empty()) launches.push_back(std::move(samples));
  std::vector<std::string> notices;
  const auto clusters = two_clusters(launches);
  if (clusters) notices.push_back(*clusters);
  for (const auto detect : {outliers, trend, launch_spread}) {
    // Blocks in the smaller of two clusters were reported already and are not reported again as outliers.
    if (detect == outliers && clusters) continue;
    if (auto notice = detect(launches)) notices.push_back(std::move(*notice));
  }
  if (auto notice = missing_audit(record.checks)) notices.push_back(std::move(*notice));
  if (auto notice = straggling(record)) notices.push_back(std::move(*notice));
  if (auto notice = disturbed_profiles(record)) notices.push_back(std::move(*notice));
  if (auto notice = throttling(record)) notices.push_back(std::move(*notice));
  for (auto& text : rank_warnings(record)) notices.push_back(std::move(text));
  return notices;
}

}  // namespace dpbench
