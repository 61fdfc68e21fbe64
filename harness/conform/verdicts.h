// What becomes of a scenario's evidence on rank 0: rows, judged on a thread of its own while the ranks go on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/conform/filter.h"
#include "harness/conform/judges/judges.h"
#include "harness/conform/judging.h"

namespace dpbench {

class Verdicts {
 public:
  explicit Verdicts(const CheckFilter& filter) : filter_(filter) {}

  // Parameters that the strategy may refuse by name.
  void may_refuse(std::vector<std::string> unused) { unused_ = std::move(unused); }

  // Benches and scenarios must outlive finish().
  void skip(const Scenario& scenario, const std::string& why);
  void judge(const Bench& bench, const Scenario& scenario, std::optional<double> clip, std::vector<Evidence> evidence);
  // A second run of the same. baseline: what a world of 1 must equal.
  void judge_again(const Bench& bench, const Scenario& scenario, std::vector<Evidence> evidence,
                   std::optional<Evidence> baseline);

  // The ranks have fallen apart: their group is of no more use.
  bool broken() const { return broken_; }
  // Not every scenario was refused.
  bool saw_steps() const { return refused_ == 0 || judged_ > 0; }
  // Waits for what is still being judged.
  Rows& finish();

 private:
  bool fit_to_judge(const Scenario& scenario, const std::vector<Evidence>& evidence);
  bool refusal_names_the_unused(const Scenario& scenario, const std::vector<Evidence>& evidence);
  void judge_trial(const Bench& bench, const Scenario& scenario, std::optional<double> clip,
                   std::vector<Evidence> evidence);

  const CheckFilter& filter_;
  std::vector<std::string> unused_;
  int refused_ = 0, judged_ = 0;
  bool broken_ = false;
  Rows rows_;
  std::optional<ReductionCount> counted_;  // of a step without micro-batches
  std::vector<Evidence> first_;            // of a scenario that is run again
  Judging judging_{rows_};                 // last: its thread ends before what it uses
};

}  // namespace dpbench
