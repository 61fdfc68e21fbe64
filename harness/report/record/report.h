// run.json: what a run did, on what, with what result. Schema in results/schema/, glossary in results/glossary.md.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "harness/report/base/field.h"
#include "harness/report/record/case.h"
#include "harness/report/record/protocol.h"
#include "harness/report/record/training.h"
#include "harness/report/stats/stats.h"

namespace dpbench {

// Figures worked out from a case's measurements (figures/). Null: not known, or not of that kind.
struct Derived {
  std::optional<double> samples_per_s{}, speedup{}, efficiency{}, own_speedup{}, own_efficiency{}, karp_flatt{},
      own_karp_flatt{}, wrapper_cost{}, comm_fraction{}, communication_ns{}, exposed_ns{}, waiting_ns{}, overlap{},
      collectives_per_step{}, collective_bytes_per_step{}, flop_per_step{}, flop_per_s{}, peak_flop_per_s{},
      peak_bytes_per_s{}, flop_share{}, skew{}, gpu_power_w{}, throttled_share{}, noise{};
  std::optional<int64_t> peak_memory_bytes{};
  std::optional<int> straggler{};
};

template <>
struct Table<Derived> {
  using D = Derived;
  static constexpr const char* name = "derived";
  static constexpr std::tuple fields{
      Field{"samples_per_s", "samples / s", &D::samples_per_s, "samples of a step / its median time",
            range::above_zero},
      Field{"speedup", "1", &D::speedup, "samples_per_s / the baseline's", range::above_zero},
      Field{"efficiency", "1", &D::efficiency, "speedup / world", range::above_zero},
      later(Field{"own_speedup", "1", &D::own_speedup,
                  "samples_per_s / that of the same strategy in a world of one; since 1.2", range::above_zero}),
      later(Field{"own_efficiency", "1", &D::own_efficiency, "own_speedup / world", range::above_zero}),
      later(Field{"karp_flatt", "1", &D::karp_flatt, "serial fraction: (1 / speedup - 1 / world) / (1 - 1 / world)"}),
      later(Field{"own_karp_flatt", "1", &D::own_karp_flatt, "the same of own_speedup"}),
      later(Field{"wrapper_cost", "1", &D::wrapper_cost, "a world of one: its step / the baseline's - 1"}),
      Field{"comm_fraction", "1", &D::comm_fraction, "communication and waiting / all phases of a watched step",
            range::share},
      later(Field{"communication_ns", "ns", &D::communication_ns, "of a step, mean over ranks", range::not_negative}),
      later(Field{"exposed_ns", "ns", &D::exposed_ns, "of it, the part that nothing hid", range::not_negative}),
      later(
          Field{"waiting_ns", "ns", &D::waiting_ns, "for other ranks to arrive, mean over ranks", range::not_negative}),
      later(Field{"overlap", "1", &D::overlap, "hidden communication / communication", range::share}),
      later(Field{"collectives_per_step", "collectives", &D::collectives_per_step, "of a rank, mean",
                  range::not_negative}),
      later(Field{"collective_bytes_per_step", "bytes", &D::collective_bytes_per_step, "of a rank, mean",
                  range::not_negative}),
      later(Field{"flop_per_step", "operations", &D::flop_per_step, "of all ranks together", range::not_negative}),
      later(Field{"flop_per_s", "operations / s", &D::flop_per_s, "of all ranks together", range::not_negative}),
      later(Field{"peak_flop_per_s", "operations / s", &D::peak_flop_per_s, "of the cores or GPUs it ran on",
                  range::above_zero}),
      later(Field{"peak_bytes_per_s", "bytes / s", &D::peak_bytes_per_s, "of the cores or GPUs it ran on",
                  range::above_zero}),
      later(Field{"flop_share", "1", &D::flop_share, "flop_per_s / peak_flop_per_s", range::not_negative}),
      later(Field{"skew", "1", &D::skew, "the busiest rank's time without waiting / the others' median - 1",
                  range::not_negative}),
      later(Field{"gpu_power_w", "W", &D::gpu_power_w, "of all GPUs of a launch, the middle launch; since 1.3",
                  range::not_negative}),
      later(
          Field{"throttled_share", "1", &D::throttled_share, "throttled readings / readings; since 1.3", range::share}),
      Field{"noise", "1", &D::noise, "1.4826 mad / median of the blocks", range::not_negative},
      later(Field{"peak_memory_bytes", "bytes", &D::peak_memory_bytes,
                  "of the largest rank: on the GPU, else of its own on the host", range::not_negative}),
      later(Field{"straggler", "rank", &D::straggler, "the busiest rank in every launch, if it is far from the others",
                  range::not_negative})};
};

enum class CaseStatus { ok, wrong, failed, skipped, interrupted };
template <>
inline constexpr auto enum_names<CaseStatus> =
    std::to_array<std::string_view>({"ok", "wrong", "failed", "skipped", "interrupted"});

struct CaseRecord {
  CaseSpec spec;
  CaseStatus status = CaseStatus::interrupted;
  std::string reason;  // why it is not ok
  std::vector<CheckRow> checks;
  std::vector<LaunchRecord> launches;
  std::optional<Summary> step_time_ns;
  Derived derived;
  std::optional<TrainingRecord> training{};  // of `dpbench train` alone
  std::vector<std::string> warnings;         // what was noticed while it ran
  std::vector<std::string> notices;          // what its samples say: outliers, trends

  bool ok() const { return status == CaseStatus::ok; }
  // It ran, or tried to, and must not count as a result.
  bool bad() const { return status == CaseStatus::failed || status == CaseStatus::wrong; }
};

enum class RunStatus { complete, interrupted };
template <>
inline constexpr auto enum_names<RunStatus> = std::to_array<std::string_view>({"complete", "interrupted"});

struct Report {
  std::string id;  // <UTC time>-<commit>-<machine>: the directory's name
  RunStatus status = RunStatus::interrupted;
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

inline constexpr const char *run_document = "dpbench.run", *duel_document = "dpbench.duel";  // their "schema"
inline constexpr int report_minor_version = 4;
Json to_json(const Report& report);
// A case's stats, phases and derived, as they stand in run.json.
Json figures_json(const CaseRecord& record);
Report report_from_json(const Json& json);

}  // namespace dpbench
