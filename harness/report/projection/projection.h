// Worlds that were not measured, worked out from those that were. Never a measurement: everything made here says so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/projection/fit.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct ProjectionAsked {
  std::vector<int> to{};                 // worlds
  std::optional<Network> network{};      // none: the fitted link, on this machine's cores
  std::optional<Algorithm> algorithm{};  // of allreduces; none: the one with the shortest step (fitted: the ring)
  std::vector<int> from{};               // the worlds to fit; none: all that were measured
  std::string filter{};                  // only cases whose id matches
};

struct Band {
  double low = 0, high = 0;
};
using Interval95 = std::optional<Band>;  // of the fit alone; none where a fitted step has no interval itself

struct ProjectedWorld {
  CaseSpec spec{};
  StepTime time{};
  std::optional<double> measured_s{};  // where that world was measured and not fitted, on its own network
  Interval95 step_s{};
  double samples_per_s = 0;
  double own_efficiency = 0;           // against the fitted world of one
  std::optional<double> efficiency{};  // against the baseline's row
};

struct FittedWorld {
  int world = 1;
  double measured_s = 0, fitted_s = 0;
};

struct ProjectedSeries {
  CaseSpec spec{};  // of its smallest world
  StepShape shape{};
  Fit fit{};
  Interval95 compute_s{}, latency_s{}, seconds_per_byte{};
  bool separable = true;  // latency from bandwidth: not where devices that share cores copy in turn
  std::vector<FittedWorld> fitted{};
  std::vector<ProjectedWorld> worlds{};
  std::optional<int> first_exposed{};
};

struct Projection {
  std::string run{};
  ProjectionAsked asked{};
  std::vector<ProjectedSeries> series{};
  std::vector<std::string> left_out{};  // which cases or worlds, and why
};

// The collectives of a step and where in it they begin, from the smallest world that recorded them. Empty traffic where
// none did.
StepShape shape_of(const std::vector<const CaseRecord*>& worlds, int cores);

// Throws UsageError where no case can be fitted, naming what is needed.
Projection project(const Report& report, const ProjectionAsked& asked);

// Title row first. A row for every world that was fitted, then for every one that was worked out.
std::vector<std::vector<std::string>> projection_rows(const ProjectedSeries& series);
const std::vector<bool>& projection_columns_right();
std::string projection_heading(const ProjectedSeries& series);
std::vector<std::string> projection_remarks(const ProjectedSeries& series);  // what was fitted, what it rests on
Json to_json(const Projection& projection);

}  // namespace dpbench
