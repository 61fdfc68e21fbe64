// Measures a duel, the comparison of two builds. Runs pairs of blocks (timed runs of steps), one block of each build in
// random order, until every case has a clear result or has run the most pairs allowed. The processes are restarted
// every few pairs.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/run/launcher.h"
#include "harness/front/run/progress/progress.h"
#include "harness/report/judge/duel_report.h"
#include "harness/report/machine/other_load.h"

namespace dpbench {

class DuelLoop {
 public:
  using Save = std::function<void()>;

  DuelLoop(const DuelOptions& options, DuelReport& report, CaseRunner& base, CaseRunner& now, ProgressLine& progress,
           Save save, int cores = 0, ReadCpuTimes cpu_times = {});

  LoopEnding run();

 private:
  bool launch(int index);  // runs the undecided cases once; returns false if the duel must stop
  bool measure_pairs(int index, DuelCase& record);
  bool calibrate(DuelCase& record);
  bool measure_pair(DuelCase& record);
  void audit_last_steps(DuelCase& record, bool always);
  // Sends a command to a build. Returns its answer, or nothing if the case or the duel has ended. check: the command
  // includes the checks before timing, which calibrate() judges.
  std::optional<CaseOutcome> answer(bool is_base, bool check, const Json& command, DuelCase& record);
  // Runs a block (a timed run of steps). Returns the nanoseconds of the slowest rank, or nothing if the case or the
  // duel has ended.
  std::optional<int64_t> run_block(bool is_base, bool check, DuelCase& record);
  void fail(bool is_base, DuelCase& record, const CaseOutcome& outcome);
  void judge(DuelCase& record);
  void end_groups(DuelCase& last);
  std::vector<size_t> undecided() const;

  const DuelOptions& options_;
  DuelReport& report_;
  CaseRunner &base_, &now_;
  int cores_;
  ReadCpuTimes cpu_times_;
  ProgressLine& progress_;
  Save save_;
  std::vector<CaseSpec> specs_;
  std::vector<bool> decided_;
  std::mt19937_64 random_;
  bool starved_ = false;  // true if ranks lost cores to other programs in a block of the current pair
  LoopEnding ending_;
};

}  // namespace dpbench
