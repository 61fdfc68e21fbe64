// The steps that turn a Selection (the user's choice of cases) into a plan: resolve names, expand combinations, choose
// backends, skip cases with unusable batches or worlds, and filter. None of them has side effects.
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

// A selection after its names were looked up in the catalogue and its devices on the machine.
struct ResolvedSelection {
  std::vector<const StrategyEntry*> strategies;
  std::vector<const WorkloadEntry*> workloads;
  std::vector<Place> places;
  std::vector<std::string> backends;  // backend names; "auto" stands for the most preferred backend
  std::vector<ParamAxis> axes;
  const StrategyEntry* reference = nullptr;  // strategy of --reference; null: the baseline is the reference
};

// A candidate case while the plan is made. Later steps may find that it cannot run.
struct Row {
  CaseSpec spec;
  const StrategyEntry* strategy = nullptr;
  const WorkloadEntry* workload = nullptr;
  std::string skip_reason = {};  // why the case is skipped; empty: the case can run
  std::string note = {};         // note on the case, such as why `--backend auto` took a less preferred backend
  bool unavailable = false;      // the case is skipped because this machine or build lacks something
  bool added = false;            // the case is a baseline or reference that the user did not name
};

ResolvedSelection resolve(const Selection& selection, const Catalogue& catalogue, const Machine& machine);

// Returns the row of a workload with the selection's options. Its strategy, device, world and mesh are not set yet.
Row base_row(const Selection& selection, const WorkloadEntry& workload);

// Passes every combination of the resolved selection to `emit`, in the order of the result table: each workload's
// baselines come first. The same case may be passed twice.
void expand(const Selection& selection, const Catalogue& catalogue, const ResolvedSelection& resolved,
            const std::function<void(Row)>& emit);

// Replaces the backend "auto" with an actual one. Sets `skip_reason` if the case cannot use its device or backend.
void settle_backend(Row& row, const Selection& selection, const Catalogue& catalogue, const Machine& machine);

// Sets `skip_reason` if the strategy cannot use the case's runtime or mesh, if the workload's default batch is too
// small or too large, or if the case cannot run on the ranks that an outside launcher has started. Throws UsageError
// instead if the user chose the batch size by --batch.
void judge(Row& row, const Selection& selection, const Catalogue& catalogue);

// Returns the cases (rows) that match --filter, and the baselines and --reference cases with which they are compared.
std::vector<Row> filtered(const std::vector<Row>& rows, const Selection& selection);

}  // namespace dpbench
