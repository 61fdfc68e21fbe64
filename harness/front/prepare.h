// What run and check have in common: everything that is known before a worker is started.
#pragma once

#include <filesystem>

#include "harness/front/catalogue.h"
#include "harness/front/plan.h"
#include "harness/front/session.h"
#include "harness/report/gpu_survey.h"

namespace dpbench {

struct Prepared {
  Options options;
  std::filesystem::path worker;
  Catalogue catalogue;
  GpuSurvey gpus;
  Machine machine;
  Plan plan;
};

// Throws UsageError or Unavailable for all that can be seen to be wrong by now.
Prepared prepare(Options options);
// The same for another build's worker.
Prepared prepare(Options options, const std::filesystem::path& worker);

// With a case for each of the plan's, then for those that are skipped.
Report new_report(const Prepared& prepared);

WorkerSettings worker_settings(const Prepared& prepared, const std::filesystem::path& logs);

// --dry-run. Returns the exit code.
int print_plan(const Prepared& prepared);

class WorkerRunner : public CaseRunner {
 public:
  // answer: the event that ends a case well.
  WorkerRunner(Launcher& launcher, const Signals& signals, std::string answer)
      : launcher_(launcher), signals_(signals), answer_(std::move(answer)) {}
  CaseOutcome run(const CaseSpec& spec, const Json& command) override { return launcher_.run(spec, command, answer_); }
  std::vector<std::string> end_group() override { return launcher_.end_group(); }
  int pending_signal() override { return signals_.take(); }

 private:
  Launcher& launcher_;
  const Signals& signals_;
  std::string answer_;
};

}  // namespace dpbench
