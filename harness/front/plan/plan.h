// Options x catalogue x machine -> cases. Pure: nothing is run, asked or read.
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
  std::vector<CaseSpec> cases;               // in the order of the table: per workload the baseline first
  std::vector<SkippedCase> skipped;          // asked for by name, impossible here
  std::map<std::string, std::string> notes;  // by id: why `auto` did not take the best backend
  int threads = 1;                           // of each replica, the same in every row
};

// Throws UsageError for names and numbers that cannot be, Unavailable for devices or backends that are not here.
Plan make_plan(const Selection& what, const Catalogue& catalogue, const Machine& machine);

}  // namespace dpbench
