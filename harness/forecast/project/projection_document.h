// The JSON document of a projection, `dpbench project -o json`.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/forecast/output.h"
#include "harness/forecast/project/projection.h"
#include "harness/report/base/field.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct FittedParameter {
  double value = 0;
  std::optional<std::vector<double>> ci95{};
};

template <>
struct Table<FittedParameter> {
  using P = FittedParameter;
  static constexpr const char* name = "fitted_parameter";
  static constexpr std::tuple fields{
      Field{"value", "see key", &P::value, "fitted value", range::not_negative},
      Field{"ci95", "see key", &P::ci95, "lower and upper bound of its 95 % confidence interval; null: unknown"}};
};

struct FitRow {
  FittedParameter compute_s{}, latency_s{}, seconds_per_byte{};
  bool separable = true;
  double error = 0;
};

template <>
struct Table<FitRow> {
  using F = FitRow;
  static constexpr const char* name = "fit";
  static constexpr std::tuple fields{
      Field{"compute_s", "s", &F::compute_s, "computing time of a step in world 1"},
      Field{"latency_s", "s", &F::latency_s, "latency of one message"},
      Field{"seconds_per_byte", "s / byte", &F::seconds_per_byte, "reciprocal bandwidth; 0: no limit"},
      Field{"latency_and_bandwidth_told_apart", "-", &F::separable,
            "false: only the sum of a message's latency and bytes could be fitted"},
      Field{"relative_error", "1", &F::error, "root mean square of the relative errors over the fitted worlds",
            range::not_negative}};
};

template <>
struct Table<StepCollective> {
  using C = StepCollective;
  static constexpr const char* name = "collective";
  static constexpr std::tuple fields{
      Field{"op", "-", &C::op, "operation", range::not_empty},
      Field{"bytes", "bytes", &C::bytes, "size of the whole tensor", range::not_negative},
      Field{"ready", "1", &C::ready, "share of the step's computing after which it can start", range::share},
      Field{"beside_computing", "-", &C::hides, "computing does not wait for it"}};
};

struct FittedRow {
  int world = 1;
  double measured_step_ns = 0, fitted_step_ns = 0;
};

template <>
struct Table<FittedRow> {
  using F = FittedRow;
  static constexpr const char* name = "fitted_world";
  static constexpr std::tuple fields{
      Field{"world", "devices", &F::world, "world of the fit", range::positive},
      Field{"measured_step_ns", "ns", &F::measured_step_ns, "measured step time", range::above_zero},
      Field{"fitted_step_ns", "ns", &F::fitted_step_ns, "step time of the fitted model", range::above_zero}};
};

struct ProjectedSummary {
  double median = 0;
  std::optional<double> low{}, high{};
  std::string interval{};
};

template <>
struct Table<ProjectedSummary> {
  using S = ProjectedSummary;
  static constexpr const char* name = "projected_summary";
  static constexpr std::tuple fields{
      Field{"median", "ns", &S::median, "projected step time", range::above_zero},
      Field{"ci95_low", "ns", &S::low, "lower bound of the 95 % confidence interval of the fit; null: unknown"},
      Field{"ci95_high", "ns", &S::high, "upper bound of the 95 % confidence interval of the fit; null: unknown"},
      Field{"interval", "-", &S::interval, "source of the interval: fit or none", range::not_empty}};
};

struct ProjectedStats {
  ProjectedSummary step_time_ns{};
};

template <>
struct Table<ProjectedStats> {
  static constexpr const char* name = "projected_stats";
  static constexpr std::tuple fields{Field{"step_time_ns", "-", &ProjectedStats::step_time_ns, "projected step time"}};
};

struct ProjectedDerived {
  double samples_per_s = 0;
  std::optional<double> efficiency{};
  double own_efficiency = 0, communication_ns = 0, exposed_ns = 0;
};

template <>
struct Table<ProjectedDerived> {
  using D = ProjectedDerived;
  static constexpr const char* name = "projected_derived";
  static constexpr std::tuple fields{
      Field{"samples_per_s", "samples / s", &D::samples_per_s, "throughput", range::above_zero},
      Field{"efficiency", "1", &D::efficiency, "efficiency relative to the measured baseline; null: none measured"},
      Field{"own_efficiency", "1", &D::own_efficiency, "efficiency relative to the same strategy in world 1"},
      Field{"communication_ns", "ns", &D::communication_ns, "time of all collectives of a step, overlapped or not",
            range::not_negative},
      Field{"exposed_ns", "ns", &D::exposed_ns, "communication that computing does not hide", range::not_negative}};
};

// A projected case in the format of run.json, so that charts can draw it next to measured cases. The key "projected"
// marks it, and the key "launches" is missing.
struct ProjectedCase : CaseSpec {
  bool projected = true;
  CaseStatus status = CaseStatus::ok;
  std::string reason{};
  std::vector<CheckRow> checks{};
  ProjectedStats stats{};
  ProjectedDerived derived{};
  Algorithm allreduce = Algorithm::ring;
  std::optional<double> measured_step_ns{};
  bool hidden = true;
};

template <>
struct Table<ProjectedCase> {
  using C = ProjectedCase;
  static constexpr const char* name = "projected_case";
  static constexpr auto fields = std::tuple_cat(
      Table<CaseSpec>::fields,
      std::tuple(Field{"projected", "-", &C::projected, "true: not measured"},
                 Field{"status", "-", &C::status, "always ok"}, Field{"reason", "-", &C::reason, "always empty"},
                 Field{"checks", "-", &C::checks, "always empty"},
                 Field{"stats", "-", &C::stats, "the keys of run.json that a projection has"},
                 Field{"derived", "-", &C::derived, "the keys of run.json that a projection has"},
                 Field{"allreduce", "-", &C::allreduce, "algorithm of the largest allreduce"},
                 Field{"measured_step_ns", "ns", &C::measured_step_ns,
                       "measured step time of this world; null: not measured, or used in the fit"},
                 Field{"communication_hidden", "-", &C::hidden, "computing hides all overlapping reductions"}));
};

struct SeriesRow {
  bool projected = true;
  CaseSpec spec{};
  FitRow fit{};
  std::vector<StepCollective> collectives{};
  std::vector<FittedRow> fitted{};
  std::optional<int> first_exposed_world{};
  std::vector<ProjectedCase> cases{};
};

template <>
struct Table<SeriesRow> {
  using S = SeriesRow;
  static constexpr const char* name = "series";
  static constexpr std::tuple fields{
      Field{"projected", "-", &S::projected, "true: not measured"},
      Field{"case", "-", &S::spec, "settings of the case in the smallest fitted world"},
      Field{"fit", "-", &S::fit, "parameters of the model"},
      Field{"collectives", "-", &S::collectives, "collectives of a step, in order"},
      Field{"fitted", "-", &S::fitted, "worlds of the fit"},
      Field{"first_exposed_world", "devices", &S::first_exposed_world,
            "smallest world in which computing no longer hides the reductions; null: none up to 1048576"},
      Field{"cases", "-", &S::cases, "a case for each projected world"}};
};

struct ProjectionDocument {
  bool projected = true;
  std::string run{};
  std::optional<Network> network{};
  std::optional<Algorithm> algorithm{};
  std::vector<SeriesRow> series{};
  std::vector<std::string> left_out{};
};

template <>
struct Table<ProjectionDocument> {
  using P = ProjectionDocument;
  static constexpr const char *name = "projection", *title = "dpbench projection to larger worlds, major version 1";
  static constexpr int minor_version = 0;
  static constexpr std::tuple fields{
      Field{"projected", "-", &P::projected, "true: not measured"},
      Field{"run", "-", &P::run, "id of the run that was projected", range::not_empty},
      Field{"network", "-", &P::network, "assumed network; null: as fitted"},
      Field{"algorithm", "-", &P::algorithm, "requested algorithm of the allreduces; null: chosen by dpbench"},
      Field{"series", "-", &P::series, "projected settings, each fitted on its own"},
      Field{"left_out", "-", &P::left_out, "cases or worlds that were not projected, with reasons"}};
};

}  // namespace dpbench
