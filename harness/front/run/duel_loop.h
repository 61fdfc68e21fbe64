// Measures a duel: blocks of two builds in turn, in random order, on processes started afresh every few pairs, until
// every case is clear.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "harness/front/cli/options.h"
#include "harness/front/run/launcher.h"
#include "harness/front/run/progress.h"
#include "harness/report/judge/duel_report.h"

namespace dpbench {

class DuelLoop {
 public:
  using Save = std::function<void()>;

  DuelLoop(const DuelOptions& options, DuelReport& report, CaseRunner& base, CaseRunner& now, ProgressLine& progress,
           Save save);

  LoopEnding run();

 private:
  bool launch(int index);  // false: stop
  bool take_pairs(int index, DuelCase& mine);
  bool agree_on_steps(DuelCase& mine);
  bool take_pair(DuelCase& mine);
  // Nanoseconds of the slowest rank; nothing where the case or all is over.
  std::optional<int64_t> block(bool of_base, bool check, DuelCase& mine);
  void fail(bool of_base, DuelCase& mine, const CaseOutcome& outcome);
  void judge(DuelCase& mine);
  void end_groups(DuelCase& last);
  std::vector<size_t> undecided() const;

  const DuelOptions& options_;
  DuelReport& report_;
  CaseRunner &base_, &now_;
  ProgressLine& progress_;
  Save save_;
  std::vector<CaseSpec> specs_;
  std::vector<bool> decided_;
  std::mt19937_64 random_;
  LoopEnding ending_;
};

}  // namespace dpbench
