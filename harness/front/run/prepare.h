// Everything that is known before a worker is started, and the report that begins with it.
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
  MeasuringOptions options{};  // its plug-ins are whole paths
  World* world = nullptr;      // the ranks that an outside launcher has started
  std::filesystem::path worker{};
  Catalogue catalogue{};
  GpuSurvey gpus{};
  Machine machine{};
  Plan plan{};
};

// All but the plan. Throws UsageError for what can be seen to be wrong by now.
Prepared prepare(MeasuringOptions options, const std::filesystem::path& worker, World* world = nullptr);
// Throws UsageError or Unavailable where no case can run.
void plan_cases(Prepared& prepared);

// With a case for each of the plan's, then for those that are skipped.
Report new_report(const Prepared& prepared);

// Without a folder for logs they go with the private directory.
WorkerSettings worker_settings(const Prepared& prepared, const std::filesystem::path& logs);

}  // namespace dpbench
