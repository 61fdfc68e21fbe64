// Gathers everything known before a worker starts and creates the report.
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
  MeasuringOptions options{};  // with absolute plug-in paths
  World* world = nullptr;      // the ranks started by an outside launcher
  std::filesystem::path worker{};
  Catalogue catalogue{};
  GpuSurvey gpus{};
  Machine machine{};
  Plan plan{};
};

// Fills all but the plan. Throws UsageError for errors that can be detected without a plan.
Prepared prepare(MeasuringOptions options, const std::filesystem::path& worker, World* world = nullptr);
// Fills the plan. Throws UsageError or Unavailable if no case can run.
void plan_cases(Prepared& prepared);

// Returns a report with the plan's cases, followed by the skipped ones.
Report new_report(const Prepared& prepared);

// With an empty `logs`, logs go to the private directory and are removed with it.
WorkerSettings worker_settings(const Prepared& prepared, const std::filesystem::path& logs);

}  // namespace dpbench
