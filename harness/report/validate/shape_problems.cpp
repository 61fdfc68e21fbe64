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
  void unless(bool holds, const std::string& otherwise) {
    if (!holds) found.push_back(otherwise);
  }
  std::vector<std::string> found;
};

std::string text(int64_t number) { return std::to_string(number); }

// A number of the run's configuration; older reports and other commands may lack it.
std::optional<int64_t> asked(const Report& report, const char* pointer) {
  const Json value = field_of(report.config, pointer);
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// "all", or a list that must hold it.
bool was_asked(const Report& report, const char* pointer, const std::string& name) {
  const Json names = field_of(report.config, pointer);
  return !names.is_array() || names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void look_at_spec(const Report& report, const CaseSpec& spec, Problems& problems) {
  problems.unless(spec.id == case_id(spec), "by its own fields its id is " + case_id(spec));
  problems.unless(spec.processes == 1 || spec.processes == spec.world,
                  text(spec.processes) + " processes for a world of " + text(spec.world));
  problems.unless(spec.baseline || was_asked(report, "/strategies", spec.strategy),
                  "the configuration asks for no strategy " + spec.strategy);
  problems.unless(was_asked(report, "/workloads", spec.workload),
                  "the configuration asks for no workload " + spec.workload);
  const auto seed = field_of(report.config, "/seed");
  problems.unless(!seed.is_number_unsigned() || seed.get<uint64_t>() == spec.seed,
                  "its seed is not the configuration's");
}

void look_at_profile(const Profile& profile, const std::string& whose, Problems& problems) {
  // Watching begins before a step does: what it began with may begin a moment before its zero.
  for (const CollectiveRecord& one : profile.collectives)
    problems.unless(one.start_ns.has_value() == one.end_ns.has_value() &&
                        one.start_ns.value_or(0) >= -profile.step_ns &&
                        one.end_ns.value_or(0) >= one.start_ns.value_or(0),
                    whose + " has a collective (" + one.op + ") that cannot be");
  if (!profile.communication_ns || !profile.exposed_ns || !profile.hidden_ns) return;
  const double parts = *profile.exposed_ns + *profile.hidden_ns;
  problems.unless(std::abs(parts - *profile.communication_ns) <= 1e-6 * parts + 1e-6,
                  whose + "'s communication is not its exposed and hidden parts");
}

void look_at_rank(const CaseSpec& spec, const RankRecord& rank, const std::string& whose, Problems& problems) {
  problems.unless(rank.own_rss_bytes <= rank.peak_rss_bytes, whose + " held more of its own than in all");
  problems.unless(rank.step_p50_ns <= rank.step_p90_ns && rank.step_p90_ns <= rank.step_p99_ns,
                  whose + "'s percentiles of single steps do not rise");
  // On a GPU communication may be taken out of a part by another clock than the part's own.
  for (const auto& [name, ns] : rank.phases_ns)
    problems.unless(ns >= 0 || spec.device == Device::cuda, whose + "'s " + name + " is below 0");
  if (rank.profile) look_at_profile(*rank.profile, whose, problems);
  for (const GpuCounters& gpu : rank.gpus)
    problems.unless(
        gpu.readings >= gpu.throttled_readings && gpu.throttle_reasons.empty() == (gpu.throttled_readings == 0),
        whose + "'s GPU " + gpu.pci_bus + " has counters that cannot be");
}

void look_at_launch(const Report& report, const CaseRecord& record, const LaunchRecord& launch, Problems& problems) {
  const std::string name = "launch " + text(launch.index);
  const int processes = record.spec.processes;
  std::set<int> ranks;
  for (const RankRecord& rank : launch.ranks) ranks.insert(rank.rank);
  problems.unless(ranks.size() == launch.ranks.size(), name + " holds a rank twice");
  problems.unless(!record.ok() || (static_cast<int>(ranks.size()) == processes && *ranks.begin() == 0 &&
                                   *ranks.rbegin() == processes - 1),
                  name + " does not hold ranks 0 to " + text(processes - 1));
  const auto most = asked(report, "/sampling/samples"), steps = asked(report, "/sampling/steps");
  for (const RankRecord& rank : launch.ranks) {
    const std::string whose = name + ": rank " + text(rank.rank);
    look_at_rank(record.spec, rank, whose, problems);
    problems.unless(rank.samples_ns.size() == launch.ranks.front().samples_ns.size() &&
                        rank.steps_per_sample == launch.ranks.front().steps_per_sample,
                    whose + " took other samples than rank " + text(launch.ranks.front().rank));
    if (rank.samples_ns.empty()) continue;
    problems.unless(!most || std::ssize(rank.samples_ns) <= *most,
                    whose + " has more samples than the " + text(most.value_or(0)) + " of the configuration");
    problems.unless(!steps || *steps == 0 || *steps == rank.steps_per_sample,
                    whose + " took other steps than the " + text(steps.value_or(0)) + " of the configuration");
  }
}

void look_at_launches(const Report& report, const CaseRecord& record, Problems& problems) {
  std::set<int> indices;
  for (const LaunchRecord& launch : record.launches) {
    problems.unless(indices.insert(launch.index).second, "launch " + text(launch.index) + " stands there twice");
    look_at_launch(report, record, launch, problems);
  }
  const auto asked_for = asked(report, "/launches");
  if (!asked_for || !record.ok() || record.launches.empty()) return;
  const bool more = field_of(report.config, "/max_noise_percent").is_number();  // until it is calm
  const auto launches = std::ssize(record.launches);
  problems.unless(launches == *asked_for || (more && launches > *asked_for),
                  text(launches) + " launches, not the " + text(*asked_for) + " of the configuration");
}

void look_at_status(const Report& report, const CaseRecord& record, Problems& problems) {
  const bool ended_badly = record.bad() || record.status == CaseStatus::skipped;
  problems.unless(!ended_badly || !record.reason.empty(), "it is " + record.status + " without a reason");
  problems.unless(record.status != CaseStatus::wrong || failing_check(record),
                  "it is wrong, but no check of it failed");
  problems.unless(report.status != RunStatus::complete || record.status != CaseStatus::interrupted,
                  "interrupted in a complete run");
  for (const CheckRow& row : record.checks) {
    problems.unless(row.status != CheckStatus::passed || !row.error || !row.bound || *row.error <= *row.bound,
                    "check " + row.name + " passed with an error above its bound");
  }
  if (!record.step_time_ns) return;
  const Summary& s = *record.step_time_ns;
  if (!s.ci95_low || !s.ci95_high) return;
  // An interval over launches is of their geometric mean: it may miss the median.
  const bool holds = *s.ci95_low <= s.median && s.median <= *s.ci95_high;
  problems.unless(*s.ci95_low <= *s.ci95_high && (s.interval == IntervalOver::launches || holds),
                  "stats.step_time_ns: the interval does not hold the median");
}

}  // namespace

std::vector<std::string> shape_problems(const Report& report, const CaseRecord& record) {
  Problems problems;
  look_at_spec(report, record.spec, problems);
  look_at_launches(report, record, problems);
  look_at_status(report, record, problems);
  return std::move(problems.found);
}

std::vector<std::string> shape_problems(const Report& report) {
  std::vector<std::string> found;
  if (!is_run_name(report.id)) found.push_back("its id '" + report.id + "' is no run's: <UTC time>-<commit>-<machine>");
  std::set<std::string> ids;
  for (const CaseRecord& record : report.cases)
    if (!ids.insert(record.spec.id).second) found.push_back(record.spec.id + ": the id stands there twice");
  return found;
}

}  // namespace dpbench
