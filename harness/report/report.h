// run.json: what a run did, on what, with what result. Schema in results/schema/, glossary in results/README.md.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/report/case.h"
#include "harness/report/protocol.h"
#include "harness/report/stats.h"
#include "harness/report/training.h"

namespace dpbench {

struct Derived {
  std::optional<double> samples_per_s{}, speedup{}, efficiency{}, comm_fraction{}, noise{};
  std::optional<int64_t> peak_memory_bytes{};  // of the largest rank: on the GPU, else resident
  // Against the same strategy's own row in a world of one.
  std::optional<double> own_speedup{}, own_efficiency{};
  std::optional<double> karp_flatt{}, own_karp_flatt{};  // serial fractions of the two speed-ups
  std::optional<double> wrapper_cost{};                  // a world of one: its step / the baseline's - 1
  // Of a step, mean over ranks.
  std::optional<double> communication_ns{}, exposed_ns{}, waiting_ns{}, overlap{};
  std::optional<double> collectives_per_step{}, collective_bytes_per_step{};
  // Of all ranks together.
  std::optional<double> flop_per_step{}, flop_per_s{}, peak_flop_per_s{}, peak_bytes_per_s{}, flop_share{};
  std::optional<double> skew{};
  std::optional<double> gpu_power_w{}, throttled_share{};  // of all GPUs together; of their readings
  std::optional<int> straggler{};
};

struct CaseRecord {
  CaseSpec spec;
  std::string status = "interrupted";  // ok | wrong | failed | skipped | interrupted
  std::string reason;                  // why it is not ok
  std::vector<CheckRow> checks;
  std::vector<LaunchRecord> launches;
  std::optional<Summary> step_time_ns;
  Derived derived;
  std::optional<TrainingRecord> training{};  // of `dpbench train` alone
  std::vector<std::string> warnings;
  std::vector<std::string> notices;  // what the samples themselves say: see notices.h
};

struct Report {
  std::string id;                      // <UTC time>-<commit>-<machine>: the directory's name
  std::string status = "interrupted";  // complete | interrupted
  Json tool = Json::object(), env = Json::object(), config = Json::object();  // version, commit, argv; machine; options
  std::vector<CaseRecord> cases;
};

// Cases by their id; of two with one id, the first.
using CaseIndex = std::unordered_map<std::string_view, const CaseRecord*>;
CaseIndex by_id(const Report& report);

// The slowest rank's time of every sample of a launch, per step.
std::vector<double> sample_step_ns(const LaunchRecord& launch);
// Rows that all ranks together trained on in a step: as they counted (the last batch of an epoch may be short), else
// the case's global batch.
double rows_per_step(const CaseRecord& record);
// Mean of a step over the ranks of all launches, by name of phase.
std::map<std::string, double> mean_phases_ns(const CaseRecord& record);
bool any_failed(const std::vector<CheckRow>& checks);
// Which rank ended a launch with parameters unlike the first one's.
std::optional<std::string> unequal_parameters(const CaseRecord& record);
// What makes a case wrong: the first check that failed, else that its ranks ended with unequal parameters.
std::optional<CheckRow> failing_check(const CaseRecord& record);

// The single-device strategy of the case's device, which speed-ups are relative to.
bool is_baseline(const CaseSpec& spec);
// Its measured row: same workload, dtype, threads, ...; the same global batch (strong) or batch per device (weak).
const CaseRecord* baseline_of(const Report& report, const CaseSpec& spec);

// Turns ok into wrong where a check failed or ranks ended with unequal parameters; fills step_time_ns, derived and
// notices of every case that is ok, the speed-ups from the baseline's row. May be called after every case.
void summarise(Report& report);

inline constexpr int report_minor_version = 4;
Json to_json(const Report& report);
// A case's stats, phases and derived, as they stand in run.json.
Json figures_json(const CaseRecord& record);
Report report_from_json(const Json& json);

}  // namespace dpbench
