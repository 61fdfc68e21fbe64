// The steps from a selection to a plan, all pure: resolve, expand, settle the backend, judge, filter.
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

// A selection with its names looked up in the catalogue and its devices on the machine.
struct ResolvedSelection {
  std::vector<const StrategyEntry*> strategies;
  std::vector<const WorkloadEntry*> workloads;
  std::vector<Place> places;
  std::vector<std::string> backends;  // "auto": the most preferred one
  std::vector<ParamAxis> axes;
};

// A candidate for a case; it may turn out to be impossible.
struct Row {
  CaseSpec spec;
  const StrategyEntry* strategy = nullptr;
  const WorkloadEntry* workload = nullptr;
  std::string skip_reason = {};  // empty: it can run
  std::string note = {};         // the reason that `auto` did not take the preferred backend
  bool unavailable = false;      // skipped because this machine or build lacks something
  bool added = false;            // a baseline that the user did not name
};

ResolvedSelection resolve(const Selection& selection, const Catalogue& catalogue, const Machine& machine);

// Passes every combination of the resolved selection to `emit`, in table order: each workload's baselines come first.
// The same case may be emitted twice.
void expand(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
            const std::function<void(Row)>& emit);

// Replaces "auto" with a backend. Sets `skip_reason` if the row cannot use its device or backend.
void settle_backend(Row& row, const Selection& selection, const Catalogue& catalogue, const Machine& machine);

// Sets `skip_reason` if the row cannot run under this launcher or with this batch. Throws UsageError for a bad --batch.
void judge(Row& row, const Selection& selection);

// Returns the rows that match --filter and their baselines.
std::vector<Row> filtered(const std::vector<Row>& rows, const Selection& selection);

}  // namespace dpbench
