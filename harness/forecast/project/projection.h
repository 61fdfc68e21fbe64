// Projects step times to worlds (numbers of replicas) that were not measured, from measured ones. All output is marked
// as a projection.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/forecast/project/fit.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct ProjectionRequest {
  std::vector<int> to{};             // worlds (numbers of replicas) to project
  std::optional<Network> network{};  // network to assume; unset: latency and bandwidth as fitted
  // Algorithm of the allreduces. Unset: if `network` is set, the fastest for each allreduce, else the ring.
  std::optional<Algorithm> algorithm{};
  std::vector<int> from{};  // worlds with step times for the fit; empty: all measured worlds
  std::string filter{};     // regular expression that selects cases by id
};

struct Band {
  double low = 0, high = 0;
};
// 95 % confidence interval that covers only the error of the fit. Unset if a fitted step time has no interval.
using Interval95 = std::optional<Band>;

struct ProjectedWorld {
  CaseSpec spec{};
  StepTime time{};
  // Measured step time of this world, if it was measured but not used in the fit. Unset if a network was requested.
  std::optional<double> measured_s{};
  Interval95 step_s{};
  double samples_per_s = 0;
  double own_efficiency = 0;           // efficiency relative to the same strategy in world 1, as predicted
  std::optional<double> efficiency{};  // efficiency relative to the measured baseline case
};

struct FittedWorld {
  int world = 1;
  double measured_s = 0, fitted_s = 0;
};

struct ProjectedSeries {
  CaseSpec spec{};  // settings of the case in the smallest fitted world
  StepShape shape{};
  Fit fit{};
  Interval95 compute_s{}, latency_s{}, seconds_per_byte{};
  // True if the fit can tell the time per message (latency) from the time per byte (bandwidth). It cannot for a ring if
  // the devices share CPU cores in all fitted worlds above 1: both times then grow as world - 1, so only their sum can
  // be fitted.
  bool separable = true;
  std::vector<FittedWorld> fitted{};
  std::vector<ProjectedWorld> worlds{};
  std::optional<int> first_exposed{};
};

struct Projection {
  std::string run{};
  ProjectionRequest asked{};
  std::vector<ProjectedSeries> series{};
  std::vector<std::string> left_out{};  // cases or worlds that were not projected, with reasons
};

// Returns a model of the case's step (StepShape): its collectives and when they can start, from the smallest world with
// a profile that lists collectives. Without such a profile, the list of collectives is empty.
StepShape shape_of(const std::vector<const CaseRecord*>& worlds, int cores);

// Projects the report's cases to the requested worlds. Throws UsageError, with the reason, if no case can be projected
// or a requested world on several hosts does not fill its hosts.
Projection project(const Report& report, const ProjectionRequest& asked);

// Returns the table of one case: the title row, then a row for each fitted and each projected world.
std::vector<std::vector<std::string>> projection_rows(const ProjectedSeries& series);
const std::vector<bool>& projection_columns_right();
std::string projection_heading(const ProjectedSeries& series);
// Returns lines for printing below the table: the fitted parameters, the error of the fit and its limitations.
std::vector<std::string> projection_remarks(const ProjectedSeries& series);
Json to_json(const Projection& projection);
Json projection_schema();

}  // namespace dpbench
