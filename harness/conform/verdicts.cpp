#include "harness/conform/verdicts.h"

#include <ATen/ATen.h>

#include "harness/conform/judges/judge_course.h"

namespace dpbench {

void Verdicts::skip(const Scenario& scenario, const std::string& why) {
  judging_.later(scenario,
                 [this, &scenario, why] { rows_.skipped(scenario.gradient_check, "scenario " + scenario.name, why); });
}

void Verdicts::judge(const Bench& bench, const Scenario& scenario, std::optional<double> clip,
                     std::vector<Evidence> evidence) {
  if (!fit_to_judge(scenario, evidence)) return;
  judging_.later(scenario, [this, &bench, &scenario, clip, evidence = std::move(evidence)] {
    judge_trial(bench, scenario, clip, evidence);
  });
}

void Verdicts::judge_trial(const Bench& bench, const Scenario& scenario, std::optional<double> clip,
                           std::vector<Evidence> evidence) {
  if (scenario.unwatched || scenario.other_state) {
    const Trial trial{bench, scenario, clip, std::move(evidence), {}, {}, {}};
    judge_types(trial, rows_);
    return (scenario.unwatched ? judge_unwatched : judge_other_state)(trial, rows_);
  }
  Trial trial = make_trial(bench, scenario, clip, std::move(evidence));
  if (scenario.perturbed) {
    judge_types(trial, rows_);
    return judge_perturbation(trial, rows_);
  }
  for (const Judge judge : judges) judge(trial, rows_);
  if (scenario.counts_reductions && scenario.accumulate == 1)
    counted_ = count_reductions(trial);
  else if (scenario.counts_reductions && counted_)
    judge_collective_count(*counted_, trial, rows_);
  // The evidence is kept only if the scenario is repeated, because the evidence of a large model takes gigabytes.
  if (filter_.takes_any(scenario.repeat_checks)) first_ = std::move(trial.ranks);
}

void Verdicts::judge_again(const Bench& bench, const Scenario& scenario, std::vector<Evidence> evidence,
                           std::optional<Evidence> baseline) {
  if (!fit_to_judge(scenario, evidence)) return;
  judging_.later(scenario, [this, &bench, evidence = std::move(evidence), baseline = std::move(baseline)] {
    const std::vector<Evidence> first = std::move(first_);
    if (first.empty()) return;
    judge_repeat(first, evidence, bench.strategy.repeatable, rows_);
    if (const auto type = bench.strategy.reduced_in)
      rows_.skipped("world-1-bits", "a world of 1 with the baseline",
                    "gradients are communicated in " + std::string(at::toString(*type)) + ", as requested");
    else if (bench.workload.optimizer().own)
      rows_.skipped("world-1-bits", "a world of 1 with the baseline",
                    "the workload brings its own optimizer, which the baseline cannot step");
    else if (baseline)
      judge_same_bits_as_baseline(first[0], *baseline, rows_);
  });
}

// Adds a row that tells whether all ranks completed the scenario. If every rank refused the scenario, skips its checks
// instead. Returns true if all ranks completed it.
bool Verdicts::fit_to_judge(const Scenario& scenario, const std::vector<Evidence>& evidence) {
  size_t refused = 0;
  for (const auto& one : evidence) refused += one.refused();
  if (refused == evidence.size()) {
    ++refused_;
    skip(scenario, "refused: " + evidence[0].error);
    return false;
  }
  ++judged_;
  bool completed = true;
  for (const auto& one : evidence) {
    completed = completed && one.error.empty();
    broken_ = broken_ || one.interrupted || (one.refused() && refused < evidence.size());
  }
  if (!completed && refusal_names_the_unused(scenario, evidence)) return false;
  // Evidence of the first rank with an error that is not a consequence of another rank's error. If every error is a
  // consequence, evidence of the first rank with an error.
  const Evidence* cause = nullptr;
  for (const auto& one : evidence)
    if (!one.error.empty() && (!cause || (cause->echo && !one.echo))) cause = &one;
  const std::string why = cause ? place_of_error(*cause, scenario) + ": " + cause->error : "";
  judging_.later(scenario, [this, completed, why] { rows_.completed(completed, why); });
  return completed;
}

// True if every rank stopped with an error that names all unused parameters, which is a correct response to them.
bool Verdicts::refusal_names_the_unused(const Scenario& scenario, const std::vector<Evidence>& evidence) {
  if (unused_.empty()) return false;
  for (const auto& one : evidence)
    for (const auto& name : unused_)
      if (one.error.find(name) == std::string::npos) return false;
  judging_.later(scenario, [this] {
    rows_.judged("unused-parameters", "an error that names the parameter which no rank used", true, "");
  });
  return true;
}

Rows& Verdicts::finish() {
  judging_.finish();
  return rows_;
}

}  // namespace dpbench
