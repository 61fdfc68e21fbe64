// The metrics that `compare` can judge. Each figure is a function of the launches of one run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"
#include "harness/report/stats/welch.h"

namespace dpbench {

struct Metric {
  const char* name;   // on the command line
  const char* title;  // of its column
  bool larger_is_worse;
  bool in_points;       // judged by the difference in percentage points, not by the ratio
  bool within_one_run;  // a ratio taken within one run; comparable across machines
  const char *worse, *better;
  double display_scale;  // factor from the internal to the displayed unit
  const char* display_unit;
};

const std::vector<Metric>& metrics();
const Metric* find_metric(const std::string& name);

// A figure of one run, with the groups of launches it depends on: value is proportional to exp(sum of coefficient *
// mean log).
struct Figure {
  double value = 0;
  std::vector<Term> terms;
};
// Returns nullopt if the run lacks the figure: no baseline, or nothing measured.
std::optional<Figure> figure_of(const Metric& metric, const Report& report, const CaseRecord& record);

// True if the figure has the same definition in both cases; peak memory changed with reports of version 1.4.
bool comparable_figures(const Metric& metric, const CaseRecord& base, const CaseRecord& now);

// Returns the change from base to now; positive is worse. In logs, or in points for a metric judged in points.
Change change_between(const Metric& metric, const Figure& base, const Figure& now);

}  // namespace dpbench
