// Turns the evidence (recorded results) of scenarios into result rows on rank 0. The judging functions run on a
// separate thread while the ranks continue.
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

  // unused: parameters that the model does not use. An error of the strategy that names all of them passes the check
  // unused-parameters.
  void may_refuse(std::vector<std::string> unused) { unused_ = std::move(unused); }

  // The arguments `bench` and `scenario` must exist until finish() returns, because the judging thread reads them.
  void skip(const Scenario& scenario, const std::string& why);
  void judge(const Bench& bench, const Scenario& scenario, std::optional<double> clip, std::vector<Evidence> evidence);
  // Judges the second run of a scenario. baseline: the single-device run that a world of 1 must match bit for bit.
  void judge_again(const Bench& bench, const Scenario& scenario, std::vector<Evidence> evidence,
                   std::optional<Evidence> baseline);

  // True if the ranks no longer make the same calls, so their process group is unusable.
  bool broken() const { return broken_; }
  // True unless the strategy refused every scenario.
  bool saw_steps() const { return refused_ == 0 || judged_ > 0; }
  // Waits for the judging thread and returns the rows.
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
  std::optional<ReductionCount> counted_;  // reductions counted in a step of one micro-batch
  std::vector<Evidence> first_;            // evidence of the first run of a scenario that runs twice
  Judging judging_{rows_};  // this member is declared last, so its thread ends before the other members are destroyed
};

}  // namespace dpbench
