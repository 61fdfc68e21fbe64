#include "harness/report/figures/derived.h"
#include "harness/report/figures/summarise.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

namespace dpbench {
namespace {

constexpr double straggler_skew = 0.25;

double sum_of(const std::map<std::string, double>& phases) {
  double total = 0;
  for (const auto& [name, ns] : phases) total += ns;
  return total;
}

std::optional<double> comm_fraction(const CaseRecord& record) {
  const auto phases = record.mean_phases_ns();
  const double total = sum_of(phases);
  if (!phases.contains("communication") || total <= 0) return std::nullopt;
  const auto waiting = phases.find("waiting");
  return (phases.at("communication") + (waiting == phases.end() ? 0 : waiting->second)) / total;
}

// Returns a case's peak memory. Each launch (start of the case's processes) gives the value of its largest rank. On a
// GPU the result is the maximum over launches. On the host it is the median, because worker processes of some launches
// may have run other cases before. Reports before version 1.4 lack own_rss_bytes (a rank's host memory without that of
// other cases); for these, the result is the largest peak_rss_bytes.
std::optional<int64_t> peak_memory_bytes(const CaseRecord& record) {
  int64_t device = 0, resident = 0;
  std::vector<double> own;
  for (const LaunchRecord& launch : record.launches) {
    int64_t largest = 0;
    for (const RankRecord& rank : launch.ranks) {
      device = std::max(device, rank.peak_device_bytes);
      resident = std::max(resident, rank.peak_rss_bytes);
      largest = std::max(largest, rank.own_rss_bytes);
    }
    if (largest > 0) own.push_back(static_cast<double>(largest));
  }
  const int64_t peak = device > 0 ? device : own.empty() ? resident : std::llround(median(own));
  return peak > 0 ? std::optional(peak) : std::nullopt;
}

// Returns the mean, over the ranks of all launches, of the value that get() reads from a rank's profile; nullopt if no
// profile has the value.
template <class Get>
std::optional<double> mean_of_profiles(const CaseRecord& record, Get get) {
  double sum = 0, n = 0;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks)
      if (const std::optional<double> value = rank.profile ? get(*rank.profile) : std::nullopt) sum += *value, ++n;
  return n > 0 ? std::optional(sum / n) : std::nullopt;
}

// Returns the sum of a field over all entries of the ledger (one entry per collective operation and mesh axis); nullopt
// if there are no entries or one lacks the field.
std::optional<double> formula_sum(const std::vector<LedgerEntry>& ledger, std::optional<double> LedgerEntry::* field) {
  std::optional<double> sum;
  for (const LedgerEntry& entry : ledger) {
    if (!(entry.*field)) return std::nullopt;
    sum = sum.value_or(0) + *(entry.*field);
  }
  return sum;
}

void derive_communication(CaseRecord& record) {
  Derived& d = record.derived;
  d.comm_fraction = comm_fraction(record);
  d.communication_ns = mean_of_profiles(record, [](const Profile& p) { return p.communication_ns; });
  d.exposed_ns = mean_of_profiles(record, [](const Profile& p) { return p.exposed_ns; });
  d.waiting_ns = mean_of_profiles(record, [](const Profile& p) { return p.waiting_ns; });
  if (const auto hidden = mean_of_profiles(record, [](const Profile& p) { return p.hidden_ns; });
      hidden && *d.communication_ns > 0)
    d.overlap = *hidden / *d.communication_ns;
  if (record.spec.backend == no_backend) return;
  const auto known = [](double Profile::* field) { return [=](const Profile& p) { return std::optional(p.*field); }; };
  d.collectives_per_step = mean_of_profiles(record, known(&Profile::collectives_per_step));
  d.collective_bytes_per_step = mean_of_profiles(record, known(&Profile::collective_bytes_per_step));
  const auto by_formula = [&](std::optional<double> LedgerEntry::* field) {
    return mean_of_profiles(record, [=](const Profile& p) { return formula_sum(p.ledger, field); });
  };
  d.formula_collectives_per_step = by_formula(&LedgerEntry::formula_calls);
  d.formula_collective_bytes_per_step = by_formula(&LedgerEntry::formula_bytes);
}

// Returns the sum over all ranks of the value that get() reads from a rank's record. Uses the first launch in which
// every rank has the value; nullopt if there is none.
template <class Get>
std::optional<double> sum_over_ranks(const CaseRecord& record, Get get) {
  for (const LaunchRecord& launch : record.launches) {
    double sum = 0;
    const auto add = [&](const RankRecord& rank) {
      const std::optional<double> value = get(rank);
      sum += value.value_or(0);
      return value.has_value();
    };
    if (!launch.ranks.empty() && std::all_of(launch.ranks.begin(), launch.ranks.end(), add)) return sum;
  }
  return std::nullopt;
}

void derive_flop(CaseRecord& record) {
  Derived& d = record.derived;
  d.flop_per_step = sum_over_ranks(record, [](const RankRecord& rank) -> std::optional<double> {
    return rank.profile && rank.profile->flop ? std::optional(static_cast<double>(*rank.profile->flop)) : std::nullopt;
  });
  const auto replicas = static_cast<double>(record.spec.world) / record.spec.processes;
  const auto peak = [&](double Peak::* field) {
    return sum_over_ranks(record, [&](const RankRecord& rank) {
      return rank.peak ? std::optional(replicas * (*rank.peak).*field) : std::nullopt;
    });
  };
  d.peak_flop_per_s = peak(&Peak::gemm_flop_per_s);
  d.peak_bytes_per_s = peak(&Peak::triad_bytes_per_s);
  if (d.flop_per_step) d.flop_per_s = *d.flop_per_step / (record.step_time_ns->median * 1e-9);
  if (d.flop_per_s && d.peak_flop_per_s && *d.peak_flop_per_s > 0) d.flop_share = *d.flop_per_s / *d.peak_flop_per_s;
}

// Fills a case's GPU power and the share of readings in which a GPU was throttled. Power is summed over the GPUs of a
// launch (start of the case's processes); the median over launches is reported. A GPU is identified by host and PCI bus
// id, because identical hosts number their GPUs alike.
void derive_gpus(CaseRecord& record, const HostOfRank& hosts) {
  std::vector<double> launches_w;
  int64_t readings = 0, throttled = 0;
  for (const LaunchRecord& launch : record.launches) {
    std::optional<double> watts;
    std::set<std::pair<size_t, std::string>> seen;
    for (const RankRecord& rank : launch.ranks)
      for (const GpuCounters& gpu : rank.gpus) {
        const auto host = hosts.find(rank.rank);
        const std::pair which(host == hosts.end() ? 0 : host->second, gpu.pci_bus);
        // Count a GPU shared by several ranks once.
        if (record.spec.oversubscribe && !seen.insert(which).second) continue;
        if (gpu.mean_power_w) watts = watts.value_or(0) + *gpu.mean_power_w;
        readings += gpu.readings;
        throttled += gpu.throttled_readings;
      }
    if (watts) launches_w.push_back(*watts);
  }
  if (!launches_w.empty()) record.derived.gpu_power_w = median(launches_w);
  if (readings > 0) record.derived.throttled_share = static_cast<double>(throttled) / static_cast<double>(readings);
}

struct Straggler {
  // Ratio of the busiest rank's step time, without waiting, to the median of the other ranks', minus 1.
  double skew = 0;
  std::optional<int> rank;  // the busiest rank, if it is the same in all launches and skew is large; else unset
};

// Returns how much longer the busiest rank works per step than the others, as a median over the launches (starts of the
// case's processes). Returns nullopt for a single rank or if the times spent waiting for other ranks are unknown.
std::optional<Straggler> straggler_of(const CaseRecord& record) {
  std::vector<double> skews;
  std::set<int> busiest;
  for (const LaunchRecord& launch : record.launches) {
    std::vector<std::pair<double, int>> busy;
    for (const RankRecord& rank : launch.ranks)
      if (rank.profile && rank.profile->waiting_ns)
        // A rank's busy time is its step without waiting. Waiting for a core counts as well, because a rank that other
        // programs slowed is no straggler. A rank can wait for a core and for another rank at the same time, so only
        // the longer wait is subtracted.
        busy.emplace_back(
            rank.profile->step_ns - std::max(*rank.profile->waiting_ns, rank.profile->queue_ns.value_or(0)), rank.rank);
    if (busy.size() < 2 || busy.size() != launch.ranks.size()) continue;
    std::sort(busy.begin(), busy.end());
    std::vector<double> others;
    for (size_t i = 0; i + 1 < busy.size(); ++i) others.push_back(busy[i].first);
    const double middle = median(others);
    if (middle <= 0) continue;
    skews.push_back(busy.back().first / middle - 1);
    busiest.insert(busy.back().second);
  }
  if (skews.empty()) return std::nullopt;
  Straggler found{.skew = median(skews), .rank = std::nullopt};
  if (found.skew > straggler_skew && busiest.size() == 1) found.rank = *busiest.begin();
  return found;
}

const RankRecord* first_rank(const CaseRecord& record) {
  for (const auto& launch : record.launches)
    if (!launch.ranks.empty()) return &launch.ranks.front();
  return nullptr;
}

}  // namespace

HostOfRank hosts_of_ranks(const Json& env) {
  HostOfRank found;
  const auto hosts = env.find("hosts");
  if (hosts == env.end() || !hosts->is_array()) return found;
  for (size_t i = 0; i < hosts->size(); ++i) {
    const Json& host = (*hosts)[i];
    const auto ranks = host.find("ranks");
    if (ranks == host.end() || !ranks->is_array()) continue;
    for (const Json& rank : *ranks)
      if (rank.is_number_integer()) found[rank.get<int>()] = i;
  }
  return found;
}

void derive(CaseRecord& record, const HostOfRank& hosts) {
  const Summary& summary = *record.step_time_ns;
  record.derived.samples_per_s = rows_per_step(record) / (summary.median * 1e-9);
  if (const RankRecord* rank = first_rank(record)) {
    if (rank->tokens_per_sample > 0)
      record.derived.tokens_per_s = *record.derived.samples_per_s * static_cast<double>(rank->tokens_per_sample);
    if (rank->flop_per_sample > 0) record.derived.formula_flop_per_step = rows_per_step(record) * rank->flop_per_sample;
  }
  if (summary.n > 1) record.derived.noise = mad_to_sigma * summary.mad / summary.median;
  record.derived.peak_memory_bytes = peak_memory_bytes(record);
  derive_communication(record);
  derive_flop(record);
  derive_gpus(record, hosts);
  if (const auto found = straggler_of(record)) {
    record.derived.skew = found->skew;
    record.derived.straggler = found->rank;
  }
}

std::vector<std::vector<double>> pair_ratios(const CaseRecord& record, const CaseRecord& reference) {
  const double rows = rows_per_step(record) / rows_per_step(reference);
  std::vector<std::vector<double>> launches;
  for (const LaunchRecord& launch : record.launches) {
    const std::vector<double> own = sample_step_ns(launch);
    if (own.empty() || own.size() != launch.reference_ns.size()) continue;
    auto& ratios = launches.emplace_back();
    for (size_t i = 0; i < own.size(); ++i) ratios.push_back(rows * launch.reference_ns[i] / own[i]);
  }
  return launches;
}

namespace {

void derive_speedup(CaseRecord& record, const CaseRecord& reference) {
  Derived& d = record.derived;
  d.speedup = *d.samples_per_s / *reference.derived.samples_per_s;
  const auto ratios = pair_ratios(record, reference);
  if (ratios.empty()) return;
  std::vector<double> all = launch_medians(ratios);
  const bool over_launches = all.size() >= launches_for_t;
  if (!over_launches) {
    all.clear();
    for (const auto& launch : ratios) all.insert(all.end(), launch.begin(), launch.end());
  }
  d.speedup = median(all);
  if (all.size() < 2) return;
  const Interval interval = over_launches ? log_t_interval(all) : median_interval(all);
  d.speedup_low = interval.low;
  d.speedup_high = interval.high;
}

// Adds a notice to a case if its reference has two different step times: one from the reference blocks that alternated
// with the case's blocks, one from the reference's own row of the table. At most one of them is correct, so the
// speed-up is doubtful.
void compare_reference_with_its_row(CaseRecord& record, const CaseRecord& reference) {
  constexpr double limit = 1.25;
  std::vector<double> beside;
  for (const LaunchRecord& launch : record.launches)
    if (!launch.reference_ns.empty()) beside.push_back(median(launch.reference_ns));
  if (beside.empty()) return;
  const Summary& row = *reference.step_time_ns;
  const double ns = median(beside);
  if (ns <= limit * row.ci95_high.value_or(row.median) && row.ci95_low.value_or(row.median) <= limit * ns) return;
  char text[200];
  std::snprintf(text, sizeof text,
                "a step of the reference %s took %.4g ms beside this case and %.4g ms in its own row: the speed-up is "
                "doubtful, compare with more launches",
                reference.spec.strategy.c_str(), ns * 1e-6, row.median * 1e-6);
  record.notices.insert(record.notices.begin(), text);
}

// Returns the measured case with world 1 and otherwise the settings of `spec`: strategy, parameters, backend, batch
// (global for strong scaling, per device for weak), workload, ... Null if the report has none.
const CaseRecord* own_world_1_of(const Report& report, const CaseSpec& spec) {
  for (const CaseRecord& record : report.cases)
    if (record.spec.world == 1 && record.ok() && record.step_time_ns &&
        same_setting(record.spec, spec, {.world = true}))
      return &record;
  return nullptr;
}

}  // namespace

std::optional<MemoryParts> largest_memory(const CaseRecord& record) {
  std::optional<MemoryParts> largest;
  for (const LaunchRecord& launch : record.launches)
    for (const RankRecord& rank : launch.ranks) {
      const auto& found = rank.profile ? rank.profile->memory : std::nullopt;
      if (found && (!largest || found->total() > largest->total())) largest = found;
    }
  return largest;
}

bool above_ideal(const CaseRecord& record) {
  return !record.spec.baseline && record.derived.efficiency_low.value_or(0) > 1;
}

double karp_flatt(double speedup, int world) {
  const double p = world;
  return (1 / speedup - 1 / p) / (1 - 1 / p);
}

void derive_speedups(Report& report) {
  const bool to_baseline = reference_name(report).empty();
  for (CaseRecord& record : report.cases) {
    if (!record.step_time_ns) continue;
    Derived& d = record.derived;
    const int world = record.spec.world;
    const CaseRecord* reference = reference_of(report, record.spec);
    if (reference) {
      derive_speedup(record, *reference);
      compare_reference_with_its_row(record, *reference);
    }
    if (const CaseRecord* baseline = reference; baseline && baseline->spec.baseline && to_baseline) {
      d.efficiency = *d.speedup / world;
      if (d.speedup_low) d.efficiency_low = *d.speedup_low / world;
      if (d.speedup_high) d.efficiency_high = *d.speedup_high / world;
      if (above_ideal(record))  // insert this notice first, because a table shows only the beginning of the notices
        record.notices.insert(record.notices.begin(),
                              "efficiency above 100 % by more than its interval: compare with more launches");
      if (world == 1 && baseline != &record) d.wrapper_cost = 1 / *d.speedup - 1;
      if (world > 1) d.karp_flatt = karp_flatt(*d.speedup, world);
    }
  }
  for (CaseRecord& record : report.cases) {
    if (!record.step_time_ns) continue;
    Derived& d = record.derived;
    const int world = record.spec.world;
    if (const CaseRecord* own = own_world_1_of(report, record.spec)) {
      // Compute the speed-up over the same strategy in world 1 from two speed-ups over the baseline, if both are known.
      // Their ratio varies less than that of two throughputs, because each of them compares blocks that ran next to
      // each other.
      d.own_speedup = d.efficiency && own->derived.efficiency ? *d.speedup / *own->derived.speedup
                                                              : *d.samples_per_s / *own->derived.samples_per_s;
      d.own_efficiency = *d.own_speedup / world;
      if (world > 1) d.own_karp_flatt = karp_flatt(*d.own_speedup, world);
    }
  }
}

}  // namespace dpbench
