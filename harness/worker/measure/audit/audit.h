// Audits a timed case. An audit runs a few untimed steps like the timed ones and compares their results with those of
// the oracle, which computes the expected results in float64. It takes place between timed blocks, at random moments,
// which the strategy cannot predict.
#pragma once

#include <chrono>
#include <random>
#include <string>

#include "harness/conform/judges/rows.h"
#include "harness/conform/scenario/drive.h"
#include "harness/worker/measure/audit/audit_plan.h"
#include "harness/worker/measure/audit/motion.h"
#include "harness/worker/steps/step_timer.h"

namespace dpbench {

class Audit {
 public:
  Audit(const CaseSpec& spec, const Setup& setup, Strategy& strategy, StepSource& source, StepTimer& timer,
        const Group& group, const Sampling& sampling);
  // Stores parameters and optimizer state after untimed steps. The next audit checks how far the steps since then have
  // moved the parameters. Collective.
  void look();
  // Reads and copies all that an audit reads before its steps, and drops it. Called before a timed block, so that a
  // strategy cannot recognize an audit by the time that copying takes. Collective.
  void pretend(int64_t steps);
  // Decides by chance whether to audit some steps before the next timed block; returns true if it audited some.
  // block_steps: number of steps of a timed block. timed_step_s: time of a step. Collective.
  bool between_blocks(int64_t block_steps, double timed_step_s);
  // Decides by chance whether to audit the steps after the last block. `always`: audits at least one. Collective.
  void at_end(int64_t block_steps, bool always);
  // Returns the result of all audits as one row of results, on rank 0 only; no row if there was no audit.
  std::vector<CheckRow> rows() const;

 private:
  bool samples() const { return sample_.most_elements > 0; }
  void run(int64_t steps);
  Evidence looked(int64_t steps);
  Evidence observed(int64_t steps);
  void judge(int64_t first, int64_t steps, std::vector<Evidence> ranks);

  StrategyInfo info_;  // the strategy's declared properties with this case's options
  const Group& group_;
  Strategy& strategy_;
  StepSource& source_;
  StepTimer& timer_;
  Bench bench_;
  at::ScalarType dtype_;
  int64_t accumulate_;
  std::optional<double> clip_norm_;
  bool python_;  // true if the workload is written in Python: its model may be impossible to judge (why_not_judged())
  std::optional<std::string> refusal_;  // why_not_judged(); rank 0 calls it in the first audit
  Motion motion_;
  Sample sample_;  // elements that the current audit compares
  Rows rows_;
  std::mt19937_64 random_;
  AuditPlan plan_;  // decides when to audit; every rank has a plan, but only rank 0's is used
  std::string key_;
  int64_t steps_ = 0;  // number of audited steps
  double pretended_s_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace dpbench
