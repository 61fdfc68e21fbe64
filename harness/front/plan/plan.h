// Options x catalogue x machine -> cases. Pure: starts no process, reads no file.
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
  std::vector<CaseSpec> cases;               // in table order; each workload's baselines come first
  std::vector<SkippedCase> skipped;          // cases that cannot run here
  std::map<std::string, std::string> notes;  // by id: the reason that `auto` did not take the preferred backend
  int threads = 1;                           // per replica, the same for all cases
};

// Throws UsageError for unknown names and impossible numbers, Unavailable for missing devices or backends.
Plan make_plan(const Selection& selection, const Catalogue& catalogue, const Machine& machine);

}  // namespace dpbench
