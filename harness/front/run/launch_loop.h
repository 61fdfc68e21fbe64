// Runs every case of a plan once in each launch (a start of fresh processes), with retries. Fills the report and saves
// it after each case.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/run/launcher.h"
#include "harness/front/run/progress/progress.h"
#include "harness/report/machine/other_load.h"
#include "harness/report/record/report.h"

namespace dpbench {

class LaunchLoop {
 public:
  using Save = std::function<void()>;
  // Returns the command that is sent to the workers to run a case in a launch. The runner adds the case.
  using MakeCommand = std::function<Json(int launch, const CaseSpec& spec)>;

  // The first `planned` entries of `report.cases` must be the planned cases in plan order; the skipped cases follow.
  LaunchLoop(const MeasuringOptions& options, Report& report, size_t planned, CaseRunner& runner,
             ProgressLine& progress, MakeCommand make_command, Save save, ReadCpuTimes cpu_times = {}, int cores = 0);

  // Chooses the cases of a launch from the unfinished ones (no failure, no failed check, not skipped). The loop ends
  // when a launch gets no case.
  using Choose = std::function<std::vector<size_t>(int launch, const std::vector<size_t>& unfinished)>;
  void choose_by(Choose choose) { choose_ = std::move(choose); }

  LoopEnding run();

 private:
  bool launch(int index, const std::vector<size_t>& which);  // returns false if no further launch may start
  bool run_group(int index, const std::vector<size_t>& members);
  // Adds `complaints` to the warnings of a case and prints them.
  void complain(size_t which, const std::vector<std::string>& complaints);
  bool run_case(int index, size_t which);
  CaseOutcome attempt_with_load(int index, size_t which);
  CaseOutcome measured_attempt(int index, size_t which);
  void print_result(size_t which);
  void print_results_except(const std::vector<size_t>& which);
  CaseOutcome attempt(int index, size_t which);
  bool store(int index, size_t which, CaseOutcome outcome);
  void finish_launches();
  void judge_refusals();
  std::vector<size_t> unfinished() const;
  std::vector<size_t> noisy() const;
  std::string result_text(const CaseRecord& record) const;

  const MeasuringOptions& options_;
  Report& report_;
  size_t planned_;
  CaseRunner& runner_;
  ProgressLine& progress_;
  MakeCommand make_command_;
  Choose choose_;  // chooses the cases of each launch; empty: every launch runs all unfinished cases
  Save save_;
  ReadCpuTimes cpu_times_;
  int cores_;
  std::vector<CaseSpec> specs_;
  std::vector<bool> finished_;  // per case: true if it failed, failed a check or was skipped, so it is not run again
  std::vector<bool> refused_;   // per case: true if a worker refused it (CaseOutcome::Kind::usage)
  std::vector<bool> printed_;   // per case: true if its result line has been printed
  std::string broken_start_;    // error that keeps the current process group from starting; empty: none
  LoopEnding ending_;
};

}  // namespace dpbench
