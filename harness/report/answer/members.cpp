#include "harness/report/answer/members.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "harness/report/figures/summarise.h"

namespace dpbench {
namespace {

// Minimum half-width of the interval of host memory, as a share of the peak. Smaller differences come from the layout
// of the heap.
constexpr double host_memory_error = 0.01;

// Returns CaseRecord::means: how a step of the case uses the gradient. Reports before 1.5 lack it; there, a case that
// passed gradient-vs-baseline counts as "batch mean", like the baseline.
std::string mathematics_of(const CaseRecord& record) {
  if (!record.means.empty()) return record.means;
  const bool proven = std::any_of(record.checks.begin(), record.checks.end(), [](const CheckRow& row) {
    return row.name == "gradient-vs-baseline" && row.status == CheckStatus::passed;
  });
  return proven ? batch_mean : "";
}

// Returns why a case is compared with no other; empty if it may be ranked.
std::string why_not_ranked(const CaseRecord& record) {
  if (!record.ok()) return name_of(record.status) + (record.reason.empty() ? "" : ": " + record.reason);
  if (!record.step_time_ns) return "not timed";
  if (record.checks.empty()) return "not checked";
  const std::string means = mathematics_of(record);
  if (means.empty()) return "unknown mathematics";
  return means == batch_mean ? "" : "other mathematics: " + means;
}

bool comparable(const CaseSpec& a, const CaseSpec& b) {
  const auto rest = [](const CaseSpec& s) { return std::tuple(s.world, s.scaling, s.oversubscribe, s.global_batch()); };
  return rest(a) == rest(b) && same_setting(a, b, {.strategy = true, .world = true});
}

bool several(const CaseGroup& group, const CaseSpec& spec, std::string CaseSpec::* field) {
  return std::any_of(group.members.begin(), group.members.end(), [&](const RankedCase& member) {
    const CaseSpec& other = member.record->spec;
    return other.strategy == spec.strategy && other.*field != spec.*field;
  });
}

std::string label_of(const CaseGroup& group, const CaseSpec& spec) {
  std::string label = spec.strategy;
  for (const auto& [name, value] : spec.params) label += " " + name + "=" + value;
  if (several(group, spec, &CaseSpec::backend)) label += " over " + spec.backend;
  if (several(group, spec, &CaseSpec::mesh)) label += spec.mesh.empty() ? " without a mesh" : " mesh=" + spec.mesh;
  return label;
}

// Returns an estimate with its interval extended to contain `middle` if necessary, because the interval of a geometric
// mean may miss the median.
Estimate around(double middle, double low, double high) {
  return {middle, std::min(low, middle), std::max(high, middle)};
}

// Returns the speed-up of a case over `reference`, from blocks of both cases that were timed in turn.
std::optional<Estimate> paired_speed(const CaseRecord& record, const CaseRecord* reference) {
  const Derived& d = record.derived;
  if (&record == reference) return Estimate{1, 1, 1};
  if (!d.speedup || !d.speedup_low || !d.speedup_high) return std::nullopt;
  return around(*d.speedup, *d.speedup_low, *d.speedup_high);
}

// Returns samples per second with an interval from that of the step time; nullopt if the interval does not cover the
// variation between launches.
std::optional<Estimate> launches_speed(const CaseRecord& record) {
  const Summary& s = *record.step_time_ns;
  if (s.interval != IntervalOver::launches || !s.ci95_low || !s.ci95_high || !record.derived.samples_per_s)
    return std::nullopt;
  const double rows = *record.derived.samples_per_s * s.median;
  return around(rows / s.median, rows / *s.ci95_high, rows / *s.ci95_low);
}

// Returns a case's peak memory with an interval over launches. The peak of a GPU's allocator hardly varies between
// launches, so one launch is enough. Host memory needs three launches, and a report of version 1.4 or later.
std::optional<Estimate> memory_of(const CaseRecord& record) {
  if (!record.derived.peak_memory_bytes) return std::nullopt;
  const auto peak = static_cast<double>(*record.derived.peak_memory_bytes);
  std::vector<double> device, own;
  for (const LaunchRecord& launch : record.launches) {
    int64_t device_bytes = 0, own_bytes = 0;
    for (const RankRecord& rank : launch.ranks) {
      device_bytes = std::max(device_bytes, rank.peak_device_bytes);
      own_bytes = std::max(own_bytes, rank.own_rss_bytes);
    }
    if (device_bytes > 0) device.push_back(static_cast<double>(device_bytes));
    if (own_bytes > 0) own.push_back(static_cast<double>(own_bytes));
  }
  if (!device.empty()) return Estimate{peak, *std::min_element(device.begin(), device.end()), peak};
  if (std::ssize(own) < launches_for_t) return std::nullopt;
  const Interval interval = log_t_interval(own);
  return Estimate{peak, std::min(peak * (1 - host_memory_error), interval.low),
                  std::max(peak * (1 + host_memory_error), interval.high)};
}

std::optional<StepParts> parts_of(const CaseRecord& record) {
  const auto phases = record.mean_phases_ns();
  // The shares of communication and waiting are unknown if steps are replayed as CUDA graphs, because a replayed step
  // has only the phase `graph`. They are also unknown if collectives have no times, as on a GPU: waiting is then part
  // of other phases (`backward` in ddp).
  if (phases.empty() || phases.contains("graph")) return std::nullopt;
  if (record.spec.backend != no_backend && !record.derived.communication_ns) return std::nullopt;
  double total = 0;
  for (const auto& [name, ns] : phases) total += ns;
  if (total <= 0) return std::nullopt;
  const auto share = [&](const char* name) { return phases.contains(name) ? phases.at(name) / total : 0; };
  return StepParts{.communication = share("communication") + share("scatter"), .waiting = share("waiting")};
}

void measure(const Report& report, CaseGroup& group) {
  std::vector<RankedCase>& members = group.members;
  for (RankedCase& member : members) {
    member.reference = reference_of(report, member.record->spec);
    if (member.reference) member.over_reference = paired_speed(*member.record, member.reference);
  }
  group.paired = std::all_of(members.begin(), members.end(), [&](const RankedCase& member) {
    return member.over_reference && member.reference == members.front().reference;
  });
  group.launches = members.front().record->step_time_ns->launches;
  for (RankedCase& member : members) {
    const CaseRecord& record = *member.record;
    member.label = label_of(group, record.spec);
    member.speed = group.paired ? member.over_reference : launches_speed(record);
    member.memory = memory_of(record);
    member.parts = parts_of(record);
    group.launches = std::min(group.launches, record.step_time_ns->launches);
  }
  const auto speed = [](const RankedCase& member) { return member.speed ? member.speed->middle : 0; };
  std::stable_sort(members.begin(), members.end(),
                   [&](const RankedCase& a, const RankedCase& b) { return speed(a) > speed(b); });
  // A case can have the most samples per second and still be slower than its reference, by their paired blocks.
  const auto beaten = [&](const RankedCase& member) {
    return std::ranges::any_of(members, [&](const RankedCase& other) { return faster(other, member); });
  };
  if (const auto first = std::ranges::find_if_not(members, beaten); first != members.end())
    std::rotate(members.begin(), first, first + 1);
}

}  // namespace

Estimate quotient(const Estimate& a, const Estimate& b) {
  return {a.middle / b.middle, a.low / b.high, a.high / b.low};
}

std::optional<Estimate> speed_ratio(const RankedCase& a, const RankedCase& b) {
  if (!a.speed || !b.speed) return std::nullopt;
  const bool paired = a.reference == b.reference && a.over_reference && b.over_reference;
  return paired ? quotient(*a.over_reference, *b.over_reference) : quotient(*a.speed, *b.speed);
}

bool faster(const RankedCase& a, const RankedCase& b) {
  const auto ratio = speed_ratio(a, b);
  return ratio && ratio->low > 1;
}

bool memory_compares(const RankedCase& a, const RankedCase& b) {
  return a.memory && b.memory && a.record->spec.processes == b.record->spec.processes;
}

CaseGroups groups_of(const Report& report) {
  CaseGroups found;
  for (const CaseRecord& record : report.cases) {
    if (const std::string why = why_not_ranked(record); !why.empty()) {
      found.not_ranked.push_back({record.spec.id, why});
      continue;
    }
    auto group = std::find_if(found.groups.begin(), found.groups.end(), [&](const CaseGroup& one) {
      return comparable(one.members.front().record->spec, record.spec);
    });
    if (group == found.groups.end()) group = found.groups.emplace(found.groups.end());
    group->members.push_back(
        {.record = &record, .label = {}, .speed = {}, .over_reference = {}, .memory = {}, .parts = {}});
  }
  for (CaseGroup& group : found.groups) measure(report, group);
  return found;
}

}  // namespace dpbench
