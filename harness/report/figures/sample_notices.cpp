#include "harness/report/figures/sample_notices.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <span>

namespace dpbench {
namespace {

using Launches = std::vector<std::vector<double>>;

// Both must be passed: many sigmas of the launch's own spread, and enough of the median to matter.
constexpr double outlier_sigmas = 10, outlier_share = 0.05;
constexpr double trend_sigmas = 3, trend_share = 0.02;
constexpr double apart_share = 0.10, apart_times_noise = 3;

// Two heaps: both of a fifth of the samples at least, and between them a gap that is wide beside each.
constexpr double heap_share = 0.2, gap_sigmas = 6, gap_share = 0.05;

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
  return std::to_string(found) + " of " + std::to_string(all) + " samples are outliers, up to " + percent(worst) +
         " above the median: other work was running";
}

// Mann and Kendall: +1 for every later sample that is larger, -1 for every smaller one.
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
  return change > 0 ? "samples get slower within a launch, by " + percent(change) + ": throttling, or something grows"
                    : "samples get faster within a launch, by " + percent(-change) + ": too little --warmup";
}

std::optional<std::string> falling_apart(const Launches& launches) {
  const auto medians = launch_medians(launches);
  if (medians.size() < 3) return std::nullopt;
  std::vector<double> inside;
  for (const auto& launch : launches) inside.push_back(mad_to_sigma * mad(launch) / median(launch));
  const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
  const double range = *most / *least - 1;
  if (range < apart_share || range < apart_times_noise * median(inside)) return std::nullopt;
  return "launches differ by " + percent(range) +
         ", far more than the samples of one: only more launches narrow the interval";
}

std::optional<std::string> two_heaps(const Launches& launches) {
  std::vector<double> all;
  for (const auto& launch : launches) all.insert(all.end(), launch.begin(), launch.end());
  std::sort(all.begin(), all.end());
  const auto least = static_cast<size_t>(std::ceil(heap_share * static_cast<double>(all.size())));
  if (all.size() < 10) return std::nullopt;
  size_t cut = least;  // the first of the upper heap
  for (size_t i = least; i + least <= all.size(); ++i)
    if (all[i] - all[i - 1] > all[cut] - all[cut - 1]) cut = i;
  const std::span<const double> values(all), low = values.first(cut), high = values.subspan(cut);
  const double gap = high.front() - low.back(), spread = mad_to_sigma * std::max(mad(low), mad(high));
  if (gap <= gap_sigmas * spread || gap <= gap_share * median(low)) return std::nullopt;
  return "samples fall into two heaps, " + percent(median(high) / median(low) - 1) +
         " apart: something is switched now and then (a clock, where a thread runs, another process)";
}

std::optional<std::string> straggling(const CaseRecord& record) {
  if (!record.derived.straggler) return std::nullopt;
  return "rank " + std::to_string(*record.derived.straggler) + " is a straggler: busy " +
         percent(*record.derived.skew) + " longer than the others, which wait for it";
}

// GPUs that something slowed down while samples were taken.
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
         "): cool it, or raise its power limit (nvidia-smi -pl)";
}

// What a rank itself noticed, once.
std::vector<std::string> said_by_ranks(const CaseRecord& record) {
  std::vector<std::string> said;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      for (const std::string& text : rank.warnings)
        if (std::find(said.begin(), said.end(), text) == said.end()) said.push_back(text);
  return said;
}

}  // namespace

std::vector<std::string> notices_of(const CaseRecord& record) {
  Launches launches;
  for (const LaunchRecord& launch : record.launches)
    if (auto samples = sample_step_ns(launch); !samples.empty()) launches.push_back(std::move(samples));
  std::vector<std::string> notices;
  const auto heaps = two_heaps(launches);
  if (heaps) notices.push_back(*heaps);
  for (const auto look : {outliers, trend, falling_apart}) {
    if (look == outliers && heaps) continue;  // the smaller heap
    if (auto said = look(launches)) notices.push_back(std::move(*said));
  }
  if (auto said = straggling(record)) notices.push_back(std::move(*said));
  if (auto said = throttling(record)) notices.push_back(std::move(*said));
  for (auto& text : said_by_ranks(record)) notices.push_back(std::move(text));
  return notices;
}

}  // namespace dpbench
