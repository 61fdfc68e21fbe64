#include "harness/conform/suite.h"

#include <algorithm>
#include <memory>

#include <ATen/ATen.h>

#include "harness/conform/evidence/exchange.h"
#include "harness/conform/layout_checks.h"
#include "harness/conform/raw_collectives.h"
#include "harness/conform/scenario/altered_workload.h"
#include "harness/conform/scenario/baseline.h"
#include "harness/conform/scenario/possible.h"
#include "harness/conform/verdicts.h"

namespace dpbench {
namespace {

WorkloadOptions options_of(const CheckRequest& request, bool smooth) {
  WorkloadOptions options = request.options;
  if (request.workload.probe) options.scale = request.world;  // the exact probe is made for one world
  options.smooth = smooth;
  return options;
}

Layout layout_of(const CheckRequest& request, const Workload& workload) {
  return {.parallelism = request.strategy.parallelism,
          .world = request.world,
          .rows_per_rank = workload.sum_loss() ? 1 : 4,  // one: then the exact probe's gradients are powers of two
          .samples = workload.samples()};
}

// The requested values, and an interval that shows within a scenario where none was requested.
ParamValues params_of(const CheckRequest& request) {
  auto params = request.params;
  const ParamValues& interval = request.strategy.settings.short_interval;
  params.insert(interval.begin(), interval.end());
  return params;
}

// Takes the ranks through the scenarios, all together.
class Suite {
 public:
  explicit Suite(const CheckRequest& request)
      : request_(request),
        strategy_(
            promised(request.strategy, Params(request.strategy.params, params_of(request), request.strategy.name))),
        filter_(request.filter),
        workload_(request.workload.make(options_of(request, false))),
        twin_(request.workload.make(options_of(request, true))),
        bench_{strategy_,          *workload_,    layout_of(request, *workload_),
               request.rank,       request.group, request.devices,
               params_of(request), request.seed},
        twin_bench_{strategy_,     *twin_,          bench_.layout,      request.rank,
                    request.group, request.devices, params_of(request), request.seed} {}

  std::vector<CheckRow> run() {
    if (announce_unused()) {
      choose_scenarios();
      for (const auto& scenario : scenarios_)
        if (!broken_) one(scenario);
      judge_beside_scenarios();
    }
    std::vector<CheckRow> chosen;
    for (const auto& row : verdicts_.finish().all())
      if (request_.rank == 0 &&
          (filter_.takes(row.name) || (row.name == Rows::completion && row.status == CheckStatus::failed)))
        chosen.push_back(row);
    return chosen;
  }

 private:
  // False: nothing can be run.
  bool announce_unused() {
    const UnusedPlan plan = plan_for_unused(bench_, request_.strategy, request_.workload.probe);
    if (!plan.impossible.empty())
      verdicts_.finish().skipped("unused-parameters", "a branch that only some ranks use", plan.impossible);
    for (auto* params : {&bench_.params, &twin_bench_.params}) params->insert(plan.params.begin(), plan.params.end());
    verdicts_.may_refuse(plan.pattern.names);
    return plan.impossible.empty();
  }

  void choose_scenarios() {
    // Who asks for checks by name gets them.
    const bool costly = request_.long_form || request_.workload.thorough || !filter_.takes_all();
    for (auto& scenario : scenarios(bench_.layout, request_.dtype, costly)) {
      if (scenario.huge && strategy_.reduced_in != at::kHalf) continue;
      if (!filter_.takes_any(checks_of(scenario))) continue;
      if (request_.workload.probe) scenario.judged_from = 0;  // which costs next to nothing
      scenario.losses_alone = scenario.learns && !filter_.takes(scenario.gradient_check);
      scenarios_.push_back(std::move(scenario));
    }
  }

  void one(const Scenario& scenario) {
    if (const auto why = not_possible(scenario, strategy_, *workload_, *twin_)) return verdicts_.skip(scenario, *why);
    if (scenario.huge) return beyond_range(scenario);
    carry_out(scenario.smooth ? twin_bench_ : bench_, scenario);
  }

  // Only where ranks' gradients are alike enough: each one's own must be within the range that their sum leaves.
  void beyond_range(const Scenario& scenario) {
    constexpr double most = 65504;  // of float16
    const ExpectedStep first = first_step(bench_, scenario);
    double own = 0, sum = 0;
    for (const auto& shard : first.shards)
      for (const auto& gradient : shard.gradient) own = std::max(own, largest(gradient));
    for (const auto& gradient : combine(first.shards, std::vector<double>(first.shards.size(), 1)))
      sum = std::max(sum, largest(gradient));
    const double factor = std::min(1.5 * most / sum, 0.9 * most / own);
    if (!(factor * sum > 1.05 * most))
      return verdicts_.skip(scenario, "one rank's gradient is nearly as large as the sum of all");
    enlarged_.emplace(*workload_, factor);
    enlarged_bench_.emplace(Bench{strategy_, *enlarged_, bench_.layout, bench_.rank, bench_.group, bench_.devices,
                                  bench_.params, bench_.seed});
    carry_out(*enlarged_bench_, scenario);
  }

  static double largest(const at::Tensor& tensor) { return tensor.numel() ? tensor.abs().max().item<double>() : 0; }

  void carry_out(const Bench& bench, const Scenario& scenario) {
    const auto clip = clip_of(scenario);
    auto evidence = driven(bench, scenario, clip);
    if (request_.rank == 0) verdicts_.judge(bench, scenario, clip, std::move(evidence));
    agree_to_go_on();
    if (broken_ || !filter_.takes_any(scenario.repeat_checks)) return;
    evidence = driven(bench, scenario, clip);
    if (request_.rank == 0) verdicts_.judge_again(bench, scenario, std::move(evidence), baseline_of(bench, scenario));
    agree_to_go_on();
  }

  // The same on every rank: the same arithmetic on the same model.
  std::optional<double> clip_of(const Scenario& scenario) {
    if (scenario.clip == 0) return {};
    return norm(first_step(bench_, scenario).gradient) * scenario.clip;
  }

  std::vector<Evidence> driven(const Bench& bench, const Scenario& scenario, std::optional<double> clip) {
    const Evidence mine = drive(bench, scenario, clip);
    if (request_.show) request_.show(bench, scenario, clip, mine);
    if (bench.layout.owners() == 1) return {mine};
    return gather_evidence(*request_.store, "evidence/" + std::to_string(exchanges_++), request_.rank,
                           bench.layout.owners(), mine);
  }

  // Rank 0 decides whether the group can go on; the others hear of it.
  void agree_to_go_on() {
    broken_ = verdicts_.broken();
    if (bench_.layout.owners() == 1) return;
    const auto key = "go/" + std::to_string(exchanges_++);
    broken_ = broadcast_decision(*request_.store, key, request_.rank, broken_);
  }

  void judge_beside_scenarios() {
    Rows& rows = verdicts_.finish();
    // It says nothing of the strategy: the one workload that is about exactness is enough.
    const bool backend = workload_->sum_loss() && bench_.layout.owners() > 1;
    if (!broken_ && backend && filter_.takes_any(raw_collective_checks))
      judge_raw_collectives(request_, "raw/" + std::to_string(exchanges_++), rows);
    if (request_.rank != 0 || !verdicts_.saw_steps()) return;
    if (filter_.takes_any(layout_checks)) judge_layout(request_, rows);
    if (filter_.takes_any(sampler_checks)) judge_sampler(request_, rows);
  }

  const CheckRequest& request_;
  const StrategyInfo strategy_;  // with what the parameters' values change in its promises
  CheckFilter filter_;
  std::unique_ptr<Workload> workload_, twin_;
  Bench bench_, twin_bench_;
  std::optional<AlteredWorkload> enlarged_;
  std::optional<Bench> enlarged_bench_;
  std::vector<Scenario> scenarios_;
  int exchanges_ = 0;
  bool broken_ = false;
  Verdicts verdicts_{filter_};  // last: its thread ends before what it judges
};

}  // namespace

std::vector<CheckRow> run_checks(const CheckRequest& request) { return Suite(request).run(); }

}  // namespace dpbench
