// The steps from a selection to a plan, each of them pure: choose, expand, settle the backend, judge, filter.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/plan/catalogue.h"
#include "harness/front/plan/machine.h"
#include "harness/front/plan/param_axis.h"
#include "harness/front/plan/selection.h"
#include "harness/report/record/case.h"

namespace dpbench {

// The names and devices of a selection, found in the catalogue and on the machine.
struct Choice {
  std::vector<const StrategyEntry*> strategies;
  std::vector<const WorkloadEntry*> workloads;
  std::vector<Place> places;
  std::vector<std::string> backends;  // "auto": the best one
  std::vector<ParamAxis> axes;
};

// A case before it is known whether it can run.
struct Row {
  CaseSpec spec;
  const StrategyEntry* strategy = nullptr;
  const WorkloadEntry* workload = nullptr;
  std::string why_not = {};  // empty: it can run
  std::string note = {};     // why `auto` did not take the best backend
  bool unavailable = false;  // why_not: this machine or build lacks something
  bool added = false;        // a baseline that nobody asked for by name
};

Choice choose(const Selection& what, const Catalogue& catalogue, const Machine& machine);

// Hands out every combination of the choice, in the order of the table: per workload the baselines first. The same case
// may come twice.
void expand(const Selection& what, const Catalogue& catalogue, const Choice& choice,
            const std::function<void(Row)>& take);

// Replaces "auto" by a backend, and refuses a device or a backend that this row cannot have.
void settle_backend(Row& row, const Selection& what, const Catalogue& catalogue, const Machine& machine);

// Refuses what cannot run under this launcher or with this batch. Throws UsageError for a batch that the user chose.
void judge(Row& row, const Selection& what);

// The rows that match --filter, and the baselines that they are compared with.
std::vector<Row> filtered(const std::vector<Row>& rows, const Selection& what);

}  // namespace dpbench
