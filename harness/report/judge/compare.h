// Judges one stored run against another: the gate.
#pragma once

#include <string>
#include <vector>

#include "harness/report/judge/gate.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct Judgement {
  std::string case_id;
  Rule rule;
  double base = 0, now = 0;  // in the metric's own unit
  Change change;
  int64_t base_launches = 0, new_launches = 0;
  Verdict verdict = Verdict::unclear;
};

// A case that got no verdict, and why.
struct Mention {
  std::string case_id, why;
};

struct Difference {
  std::string field, base, now;
};

struct Comparison {
  std::string base_id, new_id;
  std::vector<Judgement> judged;
  std::vector<Mention> broken;      // wrong or failed in the new run: the gate fails
  std::vector<Mention> unmeasured;  // in both, but not to be judged: counts as unclear
  std::vector<Mention> added, gone;
  std::vector<std::string> unused;      // patterns of the gate file that others precede for every case they fit
  std::vector<Difference> differences;  // of machine or software, that did not lead to a refusal

  size_t count(Verdict verdict) const;
  bool failed() const { return !broken.empty() || count(Verdict::slower) > 0; }
  bool inconclusive() const { return !unmeasured.empty() || count(Verdict::unclear) > 0; }
};

// Throws UsageError where the runs have no case in common or where machines or configurations are unlike, naming the
// fields; unlike_machines lets these through. Also where a pattern of the gate fits no case of either run: it would
// rule nothing, and be taken for a rule. Metrics taken within one run never need like machines.
Comparison compare(const Report& base, const Report& now, const Gate& gate, bool unlike_machines = false);

}  // namespace dpbench
