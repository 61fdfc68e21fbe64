// Runs every case of a plan in every launch, with retries; fills the report, and has it saved as it grows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/run/launcher.h"
#include "harness/front/run/progress.h"
#include "harness/report/machine/other_load.h"
#include "harness/report/record/report.h"

namespace dpbench {

class LaunchLoop {
 public:
  using Save = std::function<void()>;
  // The command to the workers in a launch, without the case.
  using Tell = std::function<Json(int launch)>;
  // What the machine's cores did so far; nothing where that cannot be known.
  using Load = std::function<std::optional<CpuTimes>()>;

  // report.cases: the plan's first, in its order; skipped ones after them.
  LaunchLoop(const MeasuringOptions& options, Report& report, size_t planned, CaseRunner& runner,
             ProgressLine& progress, Tell tell, Save save, Load load = {}, int cores = 0);

  LoopEnding run();

 private:
  bool launch(int index, const std::vector<size_t>& which);  // false: stop
  bool run_group(int index, const std::vector<size_t>& members);
  bool run_case(int index, size_t which);
  CaseOutcome watched_attempt(int index, size_t which);
  void say_other_load();
  void say_over(size_t which);
  void say_over_but(const std::vector<size_t>& which);
  CaseOutcome attempt(int index, size_t which);
  bool record(int index, size_t which, CaseOutcome outcome);
  void finish_launches();
  std::vector<size_t> unfinished() const;
  std::vector<size_t> noisy() const;
  std::string result_text(const CaseRecord& record) const;

  const MeasuringOptions& options_;
  Report& report_;
  size_t planned_;
  CaseRunner& runner_;
  ProgressLine& progress_;
  Tell tell_;
  Save save_;
  Load load_;
  std::vector<OtherLoad> others_;  // of each case
  std::vector<CaseSpec> specs_;
  std::vector<bool> over_;    // failed, or its checks did: not run again
  std::vector<bool> said_;    // its line in the progress is there
  std::string broken_start_;  // why groups like the present one do not start
  LoopEnding ending_;
};

}  // namespace dpbench
