#include "harness/report/validate/shape_problems.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "harness/report/machine/environment.h"
#include "harness/report/record/find_run.h"

namespace dpbench {
namespace {

class Problems {
 public:
  void require(bool holds, const std::string& problem) {
    if (!holds) found.push_back(problem);
  }
  std::vector<std::string> found;
};

std::string text(int64_t number) { return std::to_string(number); }

// Returns a number from the run's stored configuration, or nullopt if it is absent, as in reports of older versions or
// other commands.
std::optional<int64_t> configured_number(const Report& report, const char* pointer) {
  const Json value = field_of(report.config, pointer);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// True if the list at `pointer` in the run's configuration contains `name`. A missing or empty list means all names.
bool is_configured(const Report& report, const char* pointer, const std::string& name) {
  const Json names = field_of(report.config, pointer);
  return !names.is_array() || names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void check_spec(const Report& report, const CaseSpec& spec, Problems& problems) {
  problems.require(spec.id == case_id(spec), "the id does not match the fields, which make " + case_id(spec));
  problems.require(spec.processes == 1 || spec.processes == spec.world,
                   text(spec.processes) + " processes do not fit world " + text(spec.world));
  if (const auto defaults = report.defaults.find(spec.strategy); defaults != report.defaults.end())
    for (const auto& [name, value] : spec.params)
      problems.require(defaults->second.contains(name) && defaults->second.at(name) != value,
                       "the parameter " + name + "=" + value + " is unknown to defaults, or equals its default");
  const bool is_reference = field_of(report.config, "/reference") == Json(spec.strategy);
  problems.require(spec.baseline || is_reference || is_configured(report, "/strategies", spec.strategy),
                   "the configuration does not contain strategy " + spec.strategy);
  problems.require(is_configured(report, "/workloads", spec.workload),
                   "the configuration does not contain workload " + spec.workload);
  const auto seed = field_of(report.config, "/seed");
  problems.require(!seed.is_number_unsigned() || seed.get<uint64_t>() == spec.seed,
                   "the seed differs from the configuration");
}

void check_profile(const Profile& profile, const std::string& whose, Problems& problems) {
  // Do not require start times of at least 0: profiling begins shortly before the step, so the first collective may
  // have a slightly negative start time.
  for (const CollectiveRecord& one : profile.collectives)
    problems.require(one.start_ns.has_value() == one.end_ns.has_value() &&
                         one.start_ns.value_or(0) >= -profile.step_ns &&
                         one.end_ns.value_or(0) >= one.start_ns.value_or(0),
                     whose + " has a collective (" + one.op + ") with impossible times");
  if (!profile.communication_ns || !profile.exposed_ns || !profile.hidden_ns) return;
  const double parts = *profile.exposed_ns + *profile.hidden_ns;
  problems.require(std::abs(parts - *profile.communication_ns) <= 1e-6 * parts + 1e-6,
                   whose + "'s communication_ns is not the sum of exposed_ns and hidden_ns");
}

void check_rank(const CaseSpec& spec, const RankRecord& rank, const std::string& whose, Problems& problems) {
  problems.require(rank.own_rss_bytes <= rank.peak_rss_bytes, whose + " has own_rss_bytes above peak_rss_bytes");
  problems.require(rank.step_p50_ns <= rank.step_p90_ns && rank.step_p90_ns <= rank.step_p99_ns,
                   whose + "'s percentiles of single steps are not ascending");
  // Do not require phase times of at least 0 on a GPU: communication is subtracted from a phase measured by another
  // clock, so the result may be negative.
  for (const auto& [name, ns] : rank.phases_ns)
    problems.require(ns >= 0 || spec.device == Device::cuda, whose + "'s " + name + " is below 0");
  if (rank.profile) check_profile(*rank.profile, whose, problems);
  for (const GpuCounters& gpu : rank.gpus)
    problems.require(
        gpu.readings >= gpu.throttled_readings && gpu.throttle_reasons.empty() == (gpu.throttled_readings == 0),
        whose + "'s GPU " + gpu.pci_bus + " has inconsistent throttling counters");
}

void check_launch(const Report& report, const CaseRecord& record, const LaunchRecord& launch, Problems& problems) {
  const std::string name = "launch " + text(launch.index);
  const int processes = record.spec.processes;
  std::set<int> ranks;
  for (const RankRecord& rank : launch.ranks) ranks.insert(rank.rank);
  problems.require(ranks.size() == launch.ranks.size(), name + " contains a rank twice");
  problems.require(!record.ok() || (static_cast<int>(ranks.size()) == processes && *ranks.begin() == 0 &&
                                    *ranks.rbegin() == processes - 1),
                   name + " does not contain exactly ranks 0 to " + text(processes - 1));
  const auto most = configured_number(report, "/sampling/samples"),
             steps = configured_number(report, "/sampling/steps");
  for (const RankRecord& rank : launch.ranks) {
    const std::string whose = name + ": rank " + text(rank.rank);
    check_rank(record.spec, rank, whose, problems);
    problems.require(rank.samples_ns.size() == launch.ranks.front().samples_ns.size() &&
                         rank.steps_per_sample == launch.ranks.front().steps_per_sample,
                     whose + " differs in samples or steps_per_sample from rank " + text(launch.ranks.front().rank));
    if (rank.samples_ns.empty()) continue;
    problems.require(!most || std::ssize(rank.samples_ns) <= *most,
                     whose + " has more samples than the " + text(most.value_or(0)) + " of the configuration");
    problems.require(
        !steps || *steps == 0 || *steps == rank.steps_per_sample,
        whose + " has steps_per_sample other than the " + text(steps.value_or(0)) + " of the configuration");
  }
}

void check_launches(const Report& report, const CaseRecord& record, Problems& problems) {
  std::set<int> indices;
  for (const LaunchRecord& launch : record.launches) {
    problems.require(indices.insert(launch.index).second, "launch " + text(launch.index) + " appears twice");
    check_launch(report, record, launch, problems);
  }
  const auto asked_for = configured_number(report, "/launches");
  if (!asked_for || !record.ok() || record.launches.empty()) return;
  // Do not check the number of launches in a report of `dpbench tune`: the configured number leaves out the launches
  // that search for the best candidates. It counts only the launches that judge them.
  if (configured_number(report, "/judged_from_launch")) return;
  // With max_noise_percent, a case may have more launches than configured: launches are added until its noise is low
  // enough.
  const bool more = field_of(report.config, "/max_noise_percent").is_number();
  const auto launches = std::ssize(record.launches);
  problems.require(launches == *asked_for || (more && launches > *asked_for),
                   text(launches) + " launches, not the " + text(*asked_for) + " of the configuration");
}

void check_status(const Report& report, const CaseRecord& record, Problems& problems) {
  const bool ended_badly = record.bad() || record.status == CaseStatus::skipped;
  problems.require(!ended_badly || !record.reason.empty(), "status is " + record.status + ", but there is no reason");
  problems.require(record.status != CaseStatus::wrong || failing_check(record), "status is wrong, but no check failed");
  problems.require(report.status != RunStatus::complete || record.status != CaseStatus::interrupted,
                   "status is interrupted in a complete run");
  for (const CheckRow& row : record.checks) {
    problems.require(row.status != CheckStatus::passed || !row.error || !row.bound || *row.error <= *row.bound,
                     "check " + row.name + " passed with an error above its bound");
  }
  if (!record.step_time_ns) return;
  const Summary& s = *record.step_time_ns;
  if (!s.ci95_low || !s.ci95_high) return;
  // An interval over launches may exclude the median, because it is the interval of the geometric mean of the launches.
  const bool holds = *s.ci95_low <= s.median && s.median <= *s.ci95_high;
  problems.require(*s.ci95_low <= *s.ci95_high && (s.interval == IntervalOver::launches || holds),
                   "stats.step_time_ns: the interval does not contain the median");
}

}  // namespace

std::vector<std::string> shape_problems(const Report& report, const CaseRecord& record) {
  Problems problems;
  check_spec(report, record.spec, problems);
  check_launches(report, record, problems);
  check_status(report, record, problems);
  return std::move(problems.found);
}

std::vector<std::string> shape_problems(const Report& report) {
  std::vector<std::string> found;
  if (!is_run_name(report.id))
    found.push_back("the id '" + report.id + "' is not of the form <UTC time>-<commit>-<machine>");
  if (!report.ended.empty() && report.ended < report.started)
    found.push_back("ended, " + report.ended + ", is before started, " + report.started);
  std::set<std::string> ids;
  std::set<int> orders;
  for (const CaseRecord& record : report.cases) {
    if (!ids.insert(record.spec.id).second) found.push_back(record.spec.id + ": the id appears twice");
    for (const LaunchRecord& launch : record.launches)
      if (launch.order && !orders.insert(*launch.order).second)
        found.push_back(record.spec.id + ": the order " + text(*launch.order) + " appears twice");
  }
  return found;
}

}  // namespace dpbench
