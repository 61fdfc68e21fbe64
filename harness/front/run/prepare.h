// Collects everything that is known before a worker starts (build, machine, plan) and creates the report.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/front/launch/worker_group.h"
#include "harness/front/plan/catalogue.h"
#include "harness/front/plan/plan.h"
#include "harness/report/machine/gpu_survey.h"
#include "harness/report/record/report.h"

namespace dpbench {

struct Prepared {
  MeasuringOptions options{};  // options with absolute plug-in paths
  World* world = nullptr;      // connection to the ranks of an outside launcher; null if there is none
  std::filesystem::path worker{};
  Catalogue catalogue{};
  GpuSurvey gpus{};
  Machine machine{};
  Plan plan{};
};

// Returns a Prepared whose plan is empty: plan_cases() fills it. Throws UsageError for errors that can be found without
// the plan.
Prepared prepare(MeasuringOptions options, const std::filesystem::path& worker, World* world = nullptr);
// Fills the plan of `prepared`. Throws UsageError or Unavailable if no case can run.
void plan_cases(Prepared& prepared);
// Asks the worker which planned cases have parameter values that contradict each other, or that do not suit their model
// and mesh, and skips these cases. If the worker dies or takes over a minute while it makes the models, they are not
// judged. Throws UsageError if a strategy that the user named, or whose parameters the user set, has no other cases.
void skip_refused(Prepared& prepared);

// Returns the number of cores that the run's ranks share, over all hosts (equal hosts are assumed).
int cores_of_run(const Prepared& prepared);
// Returns a new report with the planned cases, followed by the skipped ones.
Report new_report(const Prepared& prepared);

// Returns the settings for starting workers. If `logs` is empty, log files go to the Launcher's scratch directory and
// are removed with it.
WorkerSettings worker_settings(const Prepared& prepared, const std::filesystem::path& logs);

}  // namespace dpbench
