// The report of a run, run.json: its options, machine and results. The JSON Schema is in results/schema/, the glossary
// in results/glossary.md.
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
#include "harness/report/record/answer.h"
#include "harness/report/record/case.h"
#include "harness/report/record/protocol.h"
#include "harness/report/record/training.h"
#include "harness/report/stats/stats.h"

namespace dpbench {

// Figures derived from a case's measurements (computed in report/figures). An empty figure is unknown or not
// applicable.
struct Derived {
  std::optional<double> samples_per_s{}, speedup{}, efficiency{}, speedup_low{}, speedup_high{}, efficiency_low{},
      efficiency_high{}, own_speedup{}, own_efficiency{}, karp_flatt{}, own_karp_flatt{}, wrapper_cost{},
      comm_fraction{}, communication_ns{}, exposed_ns{}, waiting_ns{}, overlap{}, collectives_per_step{},
      collective_bytes_per_step{}, formula_collectives_per_step{}, formula_collective_bytes_per_step{}, flop_per_step{},
      formula_flop_per_step{}, tokens_per_s{}, flop_per_s{}, peak_flop_per_s{}, peak_bytes_per_s{}, flop_share{},
      skew{}, gpu_power_w{}, throttled_share{}, noise{};
  std::optional<int64_t> peak_memory_bytes{};
  std::optional<int> straggler{};
};

template <>
struct Table<Derived> {
  using D = Derived;
  static constexpr const char* name = "derived";
  static constexpr std::tuple fields{
      Field{"samples_per_s", "samples / s", &D::samples_per_s,
            "throughput: training samples per step / median step time", range::above_zero},
      Field{
          "speedup", "1", &D::speedup,
          "throughput / throughput of the reference: median over pairs of neighbouring blocks; without pairs, ratio of "
          "samples_per_s",
          range::above_zero},
      Field{"efficiency", "1", &D::efficiency, "speedup / world; null if the reference is not the baseline",
            range::above_zero},
      later(Field{"speedup_low", "1", &D::speedup_low,
                  "lower bound of the speed-up's 95 % confidence interval; since 1.5", range::above_zero}),
      later(Field{"speedup_high", "1", &D::speedup_high,
                  "upper bound of the speed-up's 95 % confidence interval; since 1.5", range::above_zero}),
      later(Field{"efficiency_low", "1", &D::efficiency_low, "speedup_low / world; since 1.5", range::above_zero}),
      later(Field{"efficiency_high", "1", &D::efficiency_high, "speedup_high / world; since 1.5", range::above_zero}),
      later(Field{"own_speedup", "1", &D::own_speedup,
                  "samples_per_s / samples_per_s of the same strategy with world 1; since 1.2", range::above_zero}),
      later(Field{"own_efficiency", "1", &D::own_efficiency, "own_speedup / world", range::above_zero}),
      later(Field{"karp_flatt", "1", &D::karp_flatt, "serial fraction: (1 / speedup - 1 / world) / (1 - 1 / world)"}),
      later(Field{"own_karp_flatt", "1", &D::own_karp_flatt, "serial fraction, computed from own_speedup"}),
      later(Field{"wrapper_cost", "1", &D::wrapper_cost,
                  "overhead of the strategy with world 1: step time / step time of the baseline - 1"}),
      Field{"comm_fraction", "1", &D::comm_fraction, "communication and waiting / all phases of a profiled step",
            range::share},
      later(Field{"communication_ns", "ns", &D::communication_ns,
                  "time per step with a collective in progress, mean over ranks", range::not_negative}),
      later(Field{"exposed_ns", "ns", &D::exposed_ns, "part of communication_ns not overlapped with computation",
                  range::not_negative}),
      later(Field{"waiting_ns", "ns", &D::waiting_ns, "time per step waiting for other ranks, mean over ranks",
                  range::not_negative}),
      later(Field{"overlap", "1", &D::overlap, "overlapped communication / communication", range::share}),
      later(Field{"collectives_per_step", "collectives", &D::collectives_per_step,
                  "collectives per step, mean over ranks", range::not_negative}),
      later(Field{"collective_bytes_per_step", "bytes", &D::collective_bytes_per_step,
                  "size of the tensors in collectives per step, mean over ranks", range::not_negative}),
      later(Field{"formula_collectives_per_step", "collectives", &D::formula_collectives_per_step,
                  "collectives per step by the strategy's formula, mean over ranks; since 1.10", range::not_negative}),
      later(Field{"formula_collective_bytes_per_step", "bytes", &D::formula_collective_bytes_per_step,
                  "size of the tensors in collectives per step by the strategy's formula, mean over ranks; since 1.10",
                  range::not_negative}),
      later(Field{"flop_per_step", "operations", &D::flop_per_step,
                  "floating-point operations per step, sum over ranks", range::not_negative}),
      later(Field{"formula_flop_per_step", "operations", &D::formula_flop_per_step,
                  "floating-point operations per step by the model's closed formula; since 1.6", range::above_zero}),
      later(Field{"tokens_per_s", "tokens / s", &D::tokens_per_s,
                  "throughput: samples_per_s times the tokens of a sample; since 1.6", range::above_zero}),
      later(Field{"flop_per_s", "operations / s", &D::flop_per_s,
                  "floating-point operations per second, sum over ranks", range::not_negative}),
      later(Field{"peak_flop_per_s", "operations / s", &D::peak_flop_per_s,
                  "peak compute rate of the cores or GPUs used", range::above_zero}),
      later(Field{"peak_bytes_per_s", "bytes / s", &D::peak_bytes_per_s,
                  "peak memory bandwidth of the cores or GPUs used", range::above_zero}),
      later(Field{"flop_share", "1", &D::flop_share, "flop_per_s / peak_flop_per_s", range::not_negative}),
      later(Field{"skew", "1", &D::skew, "step time without waiting: busiest rank / median of the others - 1",
                  range::not_negative}),
      later(Field{"gpu_power_w", "W", &D::gpu_power_w, "power of all GPUs of a launch, median over launches; since 1.3",
                  range::not_negative}),
      later(
          Field{"throttled_share", "1", &D::throttled_share, "throttled readings / readings; since 1.3", range::share}),
      Field{"noise", "1", &D::noise, "1.4826 * mad / median of the step times of all blocks", range::not_negative},
      later(Field{"peak_memory_bytes", "bytes", &D::peak_memory_bytes,
                  "peak memory of the largest rank: device memory on a GPU, else its own host memory",
                  range::not_negative}),
      later(Field{"straggler", "rank", &D::straggler, "rank that is far slower than the others in every launch",
                  range::not_negative})};
};

enum class CaseStatus { ok, wrong, failed, skipped, unproven, disturbed, interrupted };
template <>
inline constexpr auto enum_names<CaseStatus> =
    std::to_array<std::string_view>({"ok", "wrong", "failed", "skipped", "unproven", "disturbed", "interrupted"});

// Value of CaseRecord::means for the baseline's mathematics: each step uses the mean gradient of the whole batch.
inline constexpr const char* batch_mean = "batch mean";

struct CaseRecord {
  CaseSpec spec;
  CaseStatus status = CaseStatus::interrupted;
  std::string reason;  // why the case's status is not ok
  std::string means;   // what a step does with the gradient, for example "batch mean"; empty: unknown
  std::vector<CheckRow> checks;
  std::vector<LaunchRecord> launches;
  std::optional<Summary> step_time_ns;
  Derived derived;
  std::optional<TrainingRecord> training{};  // results of training; set only by `dpbench train`
  // The case's memory by the formulas of `dpbench plan`; unset if the case's memory was not measured or no formula
  // covers the case.
  std::optional<MemoryFormula> memory_formula{};
  std::vector<std::string> warnings;  // warnings raised while the case ran
  std::vector<std::string> notices;   // findings about the timed blocks: outliers, trends
  bool out_of_memory = false;         // true if a rank ran out of memory; not in run.json
  Refusal refusal = Refusal::none;    // what the strategy refused to run in the checks; not in run.json
  double elapsed_s = 0;               // time of all launches, with starts and checks; not in run.json

  bool ok() const { return status == CaseStatus::ok; }
  // True if a step of the case computes something other than a step of the baseline, so their speeds are not
  // comparable.
  bool other_mathematics() const { return !means.empty() && means != batch_mean; }
  bool bad() const { return status == CaseStatus::failed || status == CaseStatus::wrong; }
  // Mean time per step of each phase (forward, backward, ...), over the ranks of all launches.
  std::map<std::string, double> mean_phases_ns() const;
  // Mean time of a profiled step over the ranks of all launches, without disturbed profiles; nullopt if there is none.
  // The times of the step's phases add up to it.
  std::optional<double> mean_watched_step_ns() const;
};

// The results of a case. In run.json, they are in the same object as the fields of Table<CaseSpec>.
template <>
struct Table<CaseRecord> {
  using R = CaseRecord;
  static constexpr std::tuple fields{
      Field{"status", "-", &R::status, "result of the case; wrong: a check failed"},
      Field{"reason", "-", &R::reason, "why the status is not ok"},
      Field{"checks", "-", &R::checks, "conformance checks of the case"},
      FieldGroup{"stats", "statistics over all launches",
                 std::tuple{Field{"step_time_ns", "-", &R::step_time_ns,
                                  "statistics of the step time; null if the case was not timed"}}},
      FieldGroup{
          "phases", "parts of a profiled step",
          std::tuple{
              Field{"mean_step_ns", "ns", &R::mean_phases_ns, "mean time of each phase over the ranks of all launches"},
              later(Field{"watched_step_ns", "ns", &R::mean_watched_step_ns,
                          "mean time of a profiled step; the phases add up to it; since 1.2", range::above_zero})}},
      Field{"derived", "-", &R::derived, ""},
      later(Field{"memory_formula", "-", &R::memory_formula,
                  "memory of the largest rank's tensors at the peak of a step by closed formulas, for gpt on the CPU; "
                  "null: no formula; since 1.10"}),
      unless_empty(Field{"training", "-", &R::training, ""}),
      text_or_null(Field{"means", "-", &R::means,
                         "what a step does with the gradient: batch mean (as the baseline), sum over ranks, mean of "
                         "active ranks, local steps; since 1.5"}),
      Field{"warnings", "-", &R::warnings, "warnings raised while the case ran"},
      later(Field{"notices", "-", &R::notices, "findings in the measurements: outliers, trends"}),
      Field{"launches", "-", &R::launches, "launches of the case, each with new processes"}};
};

enum class RunStatus { complete, interrupted };
template <>
inline constexpr auto enum_names<RunStatus> = std::to_array<std::string_view>({"complete", "interrupted"});

struct Report {
  std::string id;  // name of the run's directory: <UTC time>-<commit>-<machine>
  RunStatus status = RunStatus::interrupted;
  // tool: dpbench's version, commit and argv. env: facts about the machine. config: the run's options.
  Json tool = Json::object(), env = Json::object(), config = Json::object();
  std::vector<CaseRecord> cases;
  // Start and end of the run in UTC, e.g. 2026-11-21T06:30:57Z; empty: unknown, or the run has not ended.
  std::string started{}, ended{};
  // Default values of the strategies' parameters, by strategy and parameter. CaseSpec::params holds only values that
  // differ from these.
  std::map<std::string, std::map<std::string, std::string>> defaults{};
  // How other programs or a virtual machine's host disturbed the run, such as "other programs took 1.0 to 1.5 of 2
  // cores in 25 of 33 cases"; empty if nothing was disturbed.
  std::string disturbance{};
  // Which strategy is fastest, and why (report/answer). Unset in reports of `dpbench check` and `dpbench train`, and in
  // reports before version 1.7.
  std::optional<Answer> answer{};
};

// Field table of run.json, with all keys but `cases`. validate/schema.cpp completes the schemas of `tool`, `env` and
// `config`.
template <>
struct Table<Report> {
  using R = Report;
  static constexpr const char *name = "run", *title = "dpbench report, major version 1";
  static constexpr int minor_version = 10;
  static constexpr std::tuple fields{
      Field{"id", "-", &R::id, "name of the run's directory: <UTC time>-<commit>-<machine>", range::not_empty},
      Field{"status", "-", &R::status, "complete once every planned case was tried, else interrupted"},
      text_or_null(Field{"started", "-", &R::started, "start of the run in UTC; since 1.10", range::utc_time}),
      text_or_null(
          Field{"ended", "-", &R::ended, "end of the run in UTC; null: it did not end; since 1.10", range::utc_time}),
      Field{"tool", "-", &R::tool, ""},
      Field{"env", "-", &R::env, ""},
      Field{"config", "-", &R::config, "resolved options, by flag name"},
      later(Field{"defaults", "-", &R::defaults,
                  "default values of the parameters of the strategies of the cases; params of a case has only other "
                  "values; since 1.10"}),
      text_or_null(Field{"disturbance", "-", &R::disturbance,
                         "what other programs and the host took from the cases, in a line; null: nothing; since 1.5"}),
      later(Field{"answer", "-", &R::answer,
                  "which strategy is fastest and why; null: not a measurement, or one without a timed case; since "
                  "1.7"})};
};

// Maps case ids to cases. A duplicate id maps to its first case.
using CaseIndex = std::unordered_map<std::string_view, const CaseRecord*>;
CaseIndex by_id(const Report& report);

// Returns the number of recorded launches (starts of a case's processes), summed over all cases.
int launches_of(const Report& report);
// Returns the time per step of the slowest rank, for each block (timed run of steps) of a launch (start of the case's
// processes).
std::vector<double> sample_step_ns(const LaunchRecord& launch);
// Returns the training samples per step of all ranks together. Each launch counts them over a block of steps, because
// the last batch of an epoch may be short. Returns the median over launches, or the global batch if the report lacks
// the counts.
double rows_per_step(const CaseRecord& record);
// Returns the duration of a block of steps on its slowest rank; 0 without timed steps. `block` holds the ranks' records
// of one block.
int64_t slowest_ns(const std::vector<RankRecord>& block);
bool any_failed(const std::vector<CheckRow>& checks);
// Adds the check results of another launch, `more`, to `all`. Each check keeps its most severe row: the first failed
// one, or the passed one with the largest error.
void add_checks(std::vector<CheckRow>& all, std::vector<CheckRow> more);
// Returns the reason if `checks` has checks of the gradients or updates, but all were skipped, so that nothing proves
// them correct, or if a check was skipped through a mistake of the strategy; else nullopt.
std::optional<std::string> why_unproven(const std::vector<CheckRow>& checks);
// Returns a notice if the check `audit` was skipped, else nullopt. An audit compares steps of the timed run with the
// oracle (reference computation).
std::optional<std::string> missing_audit(const std::vector<CheckRow>& checks);
// Describes the first rank whose parameters after the steps differ from those of the first rank of the same launch;
// nullopt if all ranks are equal.
std::optional<std::string> unequal_parameters(const CaseRecord& record);
// Returns the failed check that most likely caused the other failures, or null if no check failed. A failure that
// explains all others comes first (Effect::explains_all), then the earliest step; within a step, outputs and losses
// come last, because wrong parameters cause wrong outputs.
const CheckRow* root_failure(const std::vector<CheckRow>& checks);
// Returns the check that makes a case wrong: its root_failure(), else a new row if the ranks ended with unequal
// parameters. Returns nullopt if neither exists.
std::optional<CheckRow> failing_check(const CaseRecord& record);

// Values of the key "schema" in run.json, duel.json and the comparison of two runs.
inline constexpr const char *run_document = "dpbench.run", *duel_document = "dpbench.duel",
                            *compare_document = "dpbench.compare";
inline constexpr int report_minor_version = Table<Report>::minor_version;
Json to_json(const Report& report);
Json to_json(const CaseRecord& record);  // the JSON object of a case in run.json
Report report_from_json(const Json& json);

}  // namespace dpbench
