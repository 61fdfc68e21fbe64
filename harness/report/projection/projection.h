// Projects step times to worlds that were not measured, from those that were. All output is marked as a projection.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/projection/fit.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct ProjectionRequest {
  std::vector<int> to{};                 // worlds to project
  std::optional<Network> network{};      // if unset: the fitted link, on this machine's cores
  std::optional<Algorithm> algorithm{};  // of allreduces; if unset: the fastest (ring on the fitted link)
  std::vector<int> from{};               // worlds to fit; empty: all measured worlds
  std::string filter{};                  // regular expression for the ids of cases
};

struct Band {
  double low = 0, high = 0;
};
// 95 % interval of the fit only. Unset if a fitted step time has no interval.
using Interval95 = std::optional<Band>;

struct ProjectedWorld {
  CaseSpec spec{};
  StepTime time{};
  std::optional<double> measured_s{};  // set if the world was measured but not fitted; only on the fitted network
  Interval95 step_s{};
  double samples_per_s = 0;
  double own_efficiency = 0;           // relative to the fitted world 1
  std::optional<double> efficiency{};  // relative to the baseline
};

struct FittedWorld {
  int world = 1;
  double measured_s = 0, fitted_s = 0;
};

struct ProjectedSeries {
  CaseSpec spec{};  // of the smallest world
  StepShape shape{};
  Fit fit{};
  Interval95 compute_s{}, latency_s{}, seconds_per_byte{};
  bool separable = true;  // latency and bandwidth; false if devices share cores and copy in turn
  std::vector<FittedWorld> fitted{};
  std::vector<ProjectedWorld> worlds{};
  std::optional<int> first_exposed{};
};

struct Projection {
  std::string run{};
  ProjectionRequest asked{};
  std::vector<ProjectedSeries> series{};
  std::vector<std::string> left_out{};  // cases or worlds that were left out, with reasons
};

// Returns the collectives of a step and their start times, from the smallest world that recorded them. The traffic is
// empty if none did.
StepShape shape_of(const std::vector<const CaseRecord*>& worlds, int cores);

// Throws a UsageError that names the missing measurements if no case can be fitted.
Projection project(const Report& report, const ProjectionRequest& asked);

// Returns the title row, then a row for each fitted and each projected world.
std::vector<std::vector<std::string>> projection_rows(const ProjectedSeries& series);
const std::vector<bool>& projection_columns_right();
std::string projection_heading(const ProjectedSeries& series);
std::vector<std::string> projection_remarks(const ProjectedSeries& series);  // the fit and its limitations
Json to_json(const Projection& projection);

}  // namespace dpbench
