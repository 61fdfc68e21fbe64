// Carries a duel out: blocks of two builds in turn, in random order, on processes started afresh every few pairs, until
// every case is clear.
#pragma once

#include <functional>
#include <random>

#include "harness/front/options.h"
#include "harness/front/progress.h"
#include "harness/front/session.h"
#include "harness/report/duel_report.h"

namespace dpbench {

class DuelSession {
 public:
  using Save = std::function<void()>;

  DuelSession(const Options& options, DuelReport& report, CaseRunner& base, CaseRunner& now, ProgressLine& progress,
              Save save);

  SessionEnding run();

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

  const Options& options_;
  DuelReport& report_;
  CaseRunner &base_, &now_;
  ProgressLine& progress_;
  Save save_;
  std::vector<CaseSpec> specs_;
  std::vector<bool> decided_;
  std::mt19937_64 random_;
  SessionEnding ending_;
};

}  // namespace dpbench
