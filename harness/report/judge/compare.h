// Compares two stored runs case by case and applies the gate: rules such as median:5% that fail the comparison at a
// slowdown of more than 5 %.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/report/judge/gate.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct Judgement {
  std::string case_id;
  GateRule rule;
  // The metric's value in the base and the new run, before scaling by display_scale. A rule with an absolute limit
  // needs no base.
  std::optional<double> base{};
  double now = 0;
  Change change;  // change of the metric from the base run, or its distance from the absolute limit
  int64_t base_launches = 0, new_launches = 0;
  Verdict verdict = Verdict::unclear;
};

// A case for which no verdict is given, and the reason.
struct Unjudged {
  std::string case_id, why;
};

struct Difference {
  std::string field, base, now;
};

struct Comparison {
  std::string base_id, new_id;
  std::vector<Judgement> judged;
  std::vector<Unjudged> broken;  // cases that are wrong or failed in the new run; the gate fails
  // Cases that cannot be judged, for example because one run did not measure them; they count as unclear.
  std::vector<Unjudged> unmeasured;
  std::vector<Unjudged> added, gone;
  // Case patterns of the gate file that have no effect, because earlier patterns match all of their cases.
  std::vector<std::string> unused;
  std::vector<Difference> differences;  // differences in machine or software; the comparison was made despite them

  size_t count(Verdict verdict) const;
  bool failed() const { return !broken.empty() || count(Verdict::slower) > 0; }
  bool inconclusive() const { return !unmeasured.empty() || count(Verdict::unclear) > 0; }
};

// Judges the cases that two runs have in common. Throws UsageError if the runs share no case, if a pattern of the gate
// matches no case of either run, or if nothing can be judged. Unless allow_differences is set, also throws UsageError,
// naming the fields, if the machines or settings differ. The machines may differ anyway if each rule judges a ratio
// within one run (such as efficiency) or has an absolute limit.
Comparison compare(const Report& base, const Report& now, const Gate& gate, bool allow_differences = false);

// Judges the cases of a run by the absolute limits of the gate alone, without a base run.
Comparison judge_limits(const Report& now, const Gate& gate);

}  // namespace dpbench
