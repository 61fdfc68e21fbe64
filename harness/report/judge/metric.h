// What compare can judge: each figure as a function of the launches of one run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/record/report.h"
#include "harness/report/stats/welch.h"

namespace dpbench {

struct Metric {
  const char* name;   // what a user types
  const char* title;  // above its column
  bool larger_is_worse;
  bool in_points;       // judged by its difference in percentage points, not by its ratio
  bool within_one_run;  // a ratio taken within one run: may be compared across machines
  const char *worse, *better;
  double display_scale;  // from its own unit to the shown one
  const char* display_unit;
};

const std::vector<Metric>& metrics();
const Metric* find_metric(const std::string& name);

// One run's figure, and the groups of launches whose mean log it is made of: value = exp(sum of coefficient x mean +
// ...).
struct Figure {
  double value = 0;
  std::vector<Term> terms;
};
// Empty where the run does not tell it: no baseline's row, nothing measured.
std::optional<Figure> figure_of(const Metric& metric, const Report& report, const CaseRecord& record);

// Whether both are of the same meaning: host memory is another thing in reports before 1.4.
bool counted_alike(const Metric& metric, const CaseRecord& base, const CaseRecord& now);

// From the one to the other; positive is worse. In logs, or in points for a metric that is judged so.
Change change_between(const Metric& metric, const Figure& base, const Figure& now);

}  // namespace dpbench
