// The JSON document of a comparison of two runs, `dpbench compare -o json`.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"
#include "harness/report/judge/compare.h"

namespace dpbench {

template <>
struct Table<Unjudged> {
  using U = Unjudged;
  static constexpr const char* name = "unjudged";
  static constexpr std::tuple fields{Field{"case", "-", &U::case_id, "id of the case", range::not_empty},
                                     Field{"why", "-", &U::why, "why the case has no verdict"}};
};

template <>
struct Table<Difference> {
  using D = Difference;
  static constexpr const char* name = "difference";
  static constexpr std::tuple fields{Field{"field", "-", &D::field, "field of the reports", range::not_empty},
                                     Field{"base", "-", &D::base, "its value in the base run"},
                                     Field{"new", "-", &D::now, "its value in the new run"}};
};

// A Judgement in the units in which it is printed. The change is either in percent or in percentage points:
// change_percent or change_points is unset.
struct JudgedRow {
  std::string case_id, metric, rule, unit;
  std::optional<double> base{}, limit{};
  double now = 0;
  std::optional<double> change_percent{}, low_percent{}, high_percent{};
  std::optional<double> change_points{}, low_points{}, high_points{};
  int64_t base_launches = 0, new_launches = 0;
  std::string verdict{};
  bool failed = false;
};

template <>
struct Table<JudgedRow> {
  using J = JudgedRow;
  static constexpr const char* name = "judgement";
  static constexpr std::tuple fields{
      Field{"case", "-", &J::case_id, "id of the case", range::not_empty},
      Field{"metric", "-", &J::metric, "figure that the rule judges", range::not_empty},
      Field{"rule", "-", &J::rule, "rule of the gate, as written", range::not_empty},
      Field{"unit", "-", &J::unit, "unit of base, limit and new"},
      Field{"base", "see unit", &J::base, "figure in the base run; null: the base run lacks it"},
      Field{"limit", "see unit", &J::limit, "absolute limit of the rule; null: the rule judges the change"},
      Field{"new", "see unit", &J::now, "figure in the new run"},
      later(Field{"change_percent", "%", &J::change_percent,
                  "change from the base run or from the limit, positive if the figure rose; null: judged in points"}),
      later(Field{"ci95_low_percent", "%", &J::low_percent,
                  "lower bound of the change's 95 % confidence interval; null: too few launches, or judged in "
                  "points"}),
      later(Field{"ci95_high_percent", "%", &J::high_percent, "upper bound of the change's 95 % confidence interval"}),
      later(Field{"change_points", "percentage points", &J::change_points,
                  "change of a figure that is judged in percentage points; null: judged in percent"}),
      later(
          Field{"ci95_low_points", "percentage points", &J::low_points, "lower bound of its 95 % confidence interval"}),
      later(Field{"ci95_high_points", "percentage points", &J::high_points,
                  "upper bound of its 95 % confidence interval"}),
      Field{"base_launches", "launches", &J::base_launches, "launches of the base run", range::not_negative},
      Field{"new_launches", "launches", &J::new_launches, "launches of the new run", range::not_negative},
      Field{"verdict", "-", &J::verdict,
            "same, unclear, or a word for worse or better, e.g. SLOWER; at a limit: BEYOND, within", range::not_empty},
      Field{"failed", "-", &J::failed, "the case fails the gate"}};
};

struct CompareDocument {
  std::string base_id, new_id;
  GateResult gate = GateResult::passed;
  std::vector<JudgedRow> judged{};
  std::vector<Unjudged> broken{}, unmeasured{}, added{}, gone{};
  std::vector<Difference> differences{};
};

template <>
struct Table<CompareDocument> {
  using C = CompareDocument;
  static constexpr const char *name = "compare", *title = "dpbench comparison of two runs, major version 1";
  static constexpr int minor_version = 2;
  static constexpr std::tuple fields{
      Field{"base", "-", &C::base_id, "id of the base run"},
      Field{"new", "-", &C::new_id, "id of the new run"},
      Field{"gate", "-", &C::gate, "result over all cases"},
      Field{"judged", "-", &C::judged, "a row for each judged case and rule"},
      Field{"broken", "-", &C::broken, "cases that are wrong or failed in the new run; the gate fails"},
      Field{"unmeasured", "-", &C::unmeasured, "cases that were not measured in both runs; they count as unclear"},
      Field{"added", "-", &C::added, "cases that only the new run has"},
      Field{"gone", "-", &C::gone, "cases that only the base run has"},
      Field{"differences", "-", &C::differences, "machine or software that differ between the runs"}};
};

}  // namespace dpbench
