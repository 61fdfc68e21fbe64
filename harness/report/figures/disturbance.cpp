#include "harness/report/figures/disturbance.h"

#include <algorithm>
#include <cstdio>

#include "harness/report/machine/environment.h"

namespace dpbench {
namespace {

std::string cores_text(double cores) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", cores);
  return text;
}

// Formats the smallest and the largest load of other programs or the host over the cases, such as "1.0 to 1.5 of 2
// cores"; "1.0 of 2 cores" if both are equal.
std::string range_text(double least, double most, int cores) {
  const std::string low = cores_text(least), high = cores_text(most);
  return (low == high ? high : low + " to " + high) + (cores > 0 ? " of " + std::to_string(cores) : "") + " cores";
}

std::string line_of(const Report& report, double OtherLoad::* of, const std::string& who) {
  const int cores = cores_of(report);
  double least = 0, most = 0;
  size_t cases = 0, measured = 0;
  for (const CaseRecord& record : report.cases) {
    measured += record.launches.empty() ? 0 : 1;
    const double load = most_load(record, of).value_or(0);
    if (load < least_load(cores)) continue;
    least = cases == 0 ? load : std::min(least, load);
    most = std::max(most, load);
    ++cases;
  }
  if (cases == 0) return "";
  return who + " " + range_text(least, most, cores) + " in " + std::to_string(cases) + " of " +
         std::to_string(measured) + " cases";
}

// A block is disturbed if a rank waits for cores for more than this share of the block's time.
constexpr double most_lost_share = 0.05;

// Returns the share of the time `wall_ns` for which other programs kept a process of the case waiting for cores.
double lost_share(const CaseSpec& spec, double wall_ns, double cpu_ns, double queue_ns) {
  const double cores = static_cast<double>(spec.threads) * spec.world / spec.processes;  // cores that a process needs
  return std::min(queue_ns, std::max(0.0, wall_ns * cores - cpu_ns)) / wall_ns;
}

// Returns the largest share, over ranks and blocks, of a block's time for which other programs kept a rank waiting.
double lost_share(const CaseSpec& spec, const std::vector<RankRecord>& ranks) {
  double most = 0;
  for (const RankRecord& rank : ranks)
    for (size_t i = 0; i < std::min({rank.queue_ns.size(), rank.cpu_ns.size(), rank.samples_ns.size()}); ++i)
      most = std::max(most, lost_share(spec, static_cast<double>(rank.samples_ns[i]),
                                       static_cast<double>(rank.cpu_ns[i]), static_cast<double>(rank.queue_ns[i])));
  return most;
}

}  // namespace

bool crowded(const CaseSpec& spec, int cores) {
  return spec.device == Device::cpu && cores > 0 && spec.world * spec.threads > cores;
}

bool starved(const CaseSpec& spec, const std::vector<RankRecord>& block, int cores) {
  return !crowded(spec, cores) && lost_share(spec, block) > most_lost_share;
}

bool profile_starved(const CaseSpec& spec, const std::vector<RankRecord>& ranks, int cores) {
  return !crowded(spec, cores) && std::ranges::any_of(ranks, [&](const RankRecord& rank) {
    return rank.profile && rank.profile->cpu_ns && rank.profile->queue_ns &&
           lost_share(spec, rank.profile->step_ns, *rank.profile->cpu_ns, *rank.profile->queue_ns) > most_lost_share;
  });
}

void drop_profile_times(std::vector<RankRecord>& ranks) {
  for (RankRecord& rank : ranks) {
    rank.phases_ns.clear();
    if (!rank.profile) continue;
    Profile& profile = *rank.profile;
    profile.disturbed = true;
    for (auto* ns : {&profile.communication_ns, &profile.exposed_ns, &profile.hidden_ns, &profile.waiting_ns})
      ns->reset();
    profile.collectives.clear();
    profile.strategy_figures.clear();
  }
}

bool quiet(const std::optional<OtherLoad>& load) { return load && load->programs + load->host < most_lost_share; }

double least_load(int cores) { return std::max(0.25, 0.05 * cores); }

bool disturbs(const OtherLoad& load, const CaseSpec& spec, int cores) {
  return load.host >= least_load(cores) || (crowded(spec, cores) && load.programs >= least_load(cores));
}

int cores_of(const Report& report) {
  const Json usable = field_of(report.env, "/cpu/usable");
  if (!usable.is_number_integer()) return 0;
  const Json limit = field_of(report.env, "/limits/cpus"), hosts = field_of(report.env, "/hosts");
  int cores = std::max(0, usable.get<int>());
  if (limit.is_number()) cores = std::min(cores, std::max(1, static_cast<int>(limit.get<double>())));
  return cores * (hosts.is_array() ? std::max(1, static_cast<int>(hosts.size())) : 1);
}

std::string disturbance_line(const Report& report) {
  const auto disturbed =
      std::ranges::count(report.cases, CaseStatus::disturbed, [](const CaseRecord& record) { return record.status; });
  std::string text = disturbed == 0 ? ""
                                    : std::to_string(disturbed) + " of " + std::to_string(report.cases.size()) +
                                          " cases disturbed: their replicas did not have their cores";
  for (const auto& line : {line_of(report, &OtherLoad::programs, "other programs took"),
                           line_of(report, &OtherLoad::host, "the host of this virtual machine withheld")})
    if (!line.empty()) text += (text.empty() ? "" : "; ") + line;
  return text;
}

bool loaded(const Report& report, const CaseRecord& record) {
  const double most =
      std::max(most_load(record, &OtherLoad::programs).value_or(0), most_load(record, &OtherLoad::host).value_or(0));
  return most >= least_load(cores_of(report));
}

std::optional<double> most_load(const CaseRecord& record, double OtherLoad::* of) {
  std::optional<double> most;
  for (const LaunchRecord& launch : record.launches)
    if (launch.others) most = std::max(most.value_or(0), (*launch.others).*of);
  return most;
}

int disturbed_blocks(const CaseRecord& record) {
  int blocks = 0;
  for (const LaunchRecord& launch : record.launches) blocks += launch.disturbed_blocks;
  return blocks;
}

}  // namespace dpbench
