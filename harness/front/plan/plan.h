// The plan: the cases that the options, the catalogue of this build and the machine together give. Planning starts no
// process and reads no file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/plan/catalogue.h"
#include "harness/front/plan/machine.h"
#include "harness/report/record/case.h"

namespace dpbench {

struct SkippedCase {
  CaseSpec spec;
  std::string reason;
};

struct Plan {
  std::vector<CaseSpec> cases;       // cases in the order of the result table: each workload's baselines first
  std::vector<SkippedCase> skipped;  // cases that cannot run, each with the reason
  // Notes by case id, for example why `--backend auto` did not take its preferred backend.
  std::map<std::string, std::string> notes;
  int threads = 1;  // threads per replica (model copy); choose_threads() may lower it for some cases
};

// Returns the plan. Throws UsageError for unknown names and impossible numbers (such as a batch smaller than the
// world), and Unavailable for missing devices or backends.
Plan make_plan(const Selection& selection, const Catalogue& catalogue, const Machine& machine);

}  // namespace dpbench
