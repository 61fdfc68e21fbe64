// The metrics that `dpbench compare` can judge. Each is computed from the launches of a run (starts of a case's
// processes).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/report/record/report.h"
#include "harness/report/stats/welch.h"

namespace dpbench {

// A unit in which a rule may give an absolute limit, and its size in the metric's base unit: 1e6 for ms if the base
// unit is ns.
struct LimitUnit {
  const char* name;
  double size;
};

struct Metric {
  const char* name;   // the metric's name on the command line
  const char* title;  // title of the metric's table column
  bool larger_is_worse;
  bool in_points;       // true: the metric is judged by the difference in percentage points, not by the ratio
  bool within_one_run;  // true: the metric is a ratio taken within one run, so it is comparable across machines
  const char *worse, *better;
  double display_scale;  // factor from the metric's base unit to display_unit, e.g. 1e-6 from ns to ms
  const char* display_unit;
  std::span<const LimitUnit> units;  // units that an absolute limit may have; "": no unit
};

const std::vector<Metric>& metrics();
const Metric* find_metric(const std::string& name);

// A metric's value in one run: a constant times exp(sum of coefficient * mean over the terms). A term's mean is the
// mean, over the launches of one case, of the log of a figure such as the median step time. A ratio to the baseline can
// have a second term, for the baseline's launches.
struct Figure {
  double value = 0;
  std::vector<Term> terms;
};
// Returns a metric's figure for a case, or nullopt if the run lacks it: no baseline, or nothing measured.
std::optional<Figure> figure_of(const Metric& metric, const Report& report, const CaseRecord& record);

// True if the metric has the same definition in both cases; the definition of peak memory changed in version 1.4 of the
// report.
bool comparable_figures(const Metric& metric, const CaseRecord& base, const CaseRecord& now);

// Returns the metric's change from base to now; positive is worse. The unit is the logarithm of the ratio, or
// percentage points for a metric with in_points.
Change change_between(const Metric& metric, const Figure& base, const Figure& now);

}  // namespace dpbench
