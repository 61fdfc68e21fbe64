#include "harness/conform/suite.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "harness/conform/distribution_checks.h"
#include "harness/conform/evidence/computing.h"
#include "harness/conform/evidence/exchange.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/raw_collectives.h"
#include "harness/conform/scenario/altered_workload.h"
#include "harness/conform/scenario/applicability.h"
#include "harness/conform/scenario/baseline.h"
#include "harness/conform/scenario/make_workload.h"
#include "harness/conform/verdicts.h"

namespace dpbench {
namespace {

WorkloadOptions options_of(const CheckRequest& request, bool smooth) {
  WorkloadOptions options = request.options;
  // The exact probe (a small test model) depends on the world size.
  if (request.workload.probe) options.scale = request.world;
  options.smooth = smooth;
  return options;
}

int64_t rows_per_rank(const CheckRequest& request, const Workload& workload) {
  if (workload.sum_loss()) return 1;  // a single sample keeps the exact probe's gradients powers of two
  const int64_t rows = drawn_rows(request.seed);
  return request.own_rows > 0 ? std::min(rows, std::max<int64_t>(2, request.own_rows)) : rows;
}

Distribution distribution_of(const CheckRequest& request, const Workload& workload) {
  return {.parallelism = request.strategy.parallelism,
          .world = data_place(request.mesh.shape(), request.world, 0).replicas,
          .rows_per_rank = rows_per_rank(request, workload),
          .samples = workload.samples(),
          .mesh = request.mesh.shape()};
}

// Returns the requested parameter values. An interval that the user did not set (e.g. steps between two averages of
// the parameters) becomes short enough for a scenario.
ParamValues params_of(const CheckRequest& request) {
  auto params = request.params;
  const ParamValues& interval = request.strategy.settings.short_interval;
  params.insert(interval.begin(), interval.end());
  return params;
}

// Returns true for a probe (small test model) with a large parameter. This probe exposes bugs that depend on tensor
// sizes, but each of its steps is slow.
bool is_large(const CheckRequest& request, const Workload& workload) {
  constexpr int64_t large = 1 << 18;
  if (!request.workload.probe) return false;
  return std::ranges::any_of(workload.model(0)->parameters(),
                             [](const at::Tensor& parameter) { return parameter.numel() > large; });
}

// Runs all scenarios of a case, on all ranks in lockstep.
class Suite {
 public:
  explicit Suite(const CheckRequest& request)
      : request_(request),
        strategy_(
            promised(request.strategy, Params(request.strategy.params, params_of(request), request.strategy.name))),
        filter_(request.filter),
        workload_(make_workload(request.workload, options_of(request, false))),
        twin_(make_workload(request.workload, options_of(request, true))),
        large_(!request.long_form && is_large(request, *workload_)),
        bench_{strategy_,          *workload_,   distribution_of(request, *workload_),
               request.rank,       request.mesh, request.devices,
               params_of(request), request.seed, request.enters},
        twin_bench_{strategy_,          *twin_,       bench_.distribution, request.rank, request.mesh, request.devices,
                    params_of(request), request.seed, request.enters} {}

  std::vector<CheckRow> run() {
    if (configure_unused()) {
      choose_scenarios();
      for (size_t i = 0; i < scenarios_.size() && !broken_; ++i) {
        if (request_.begins) request_.begins(i + 1, scenarios_.size());
        run_scenario(scenarios_[i]);
      }
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
  // Sets the strategy's parameters for models with unused parameters. Returns false if the strategy cannot run the
  // model at all.
  bool configure_unused() {
    const std::string text = from_rank0([&] {
      UnusedPlan plan = plan_for_unused(bench_, request_.strategy, request_.workload.probe && !large_);
      verdicts_.may_refuse(std::move(plan.pattern.names));
      return text_of(plan);
    });
    const UnusedPlan plan = plan_from(text);
    if (!plan.not_runnable.empty())
      verdicts_.finish().skipped("unused-parameters", "a branch that only some ranks use", plan.not_runnable);
    for (auto* params : {&bench_.params, &twin_bench_.params}) params->insert(plan.params.begin(), plan.params.end());
    return plan.not_runnable.empty();
  }

  void choose_scenarios() {
    // The flag --filter enables the checks of costly scenarios too.
    const bool costly = request_.long_form || (request_.workload.thorough && !large_) || !filter_.takes_all();
    for (auto& scenario : scenarios(bench_.distribution, request_.dtype, costly, request_.seed)) {
      if (scenario.huge && strategy_.reduced_in != at::kHalf) continue;
      if (!filter_.takes_any(checks_of(scenario))) continue;
      if (large_ && !scenario.sizes) continue;
      // Brief cases run at most two steps per scenario. Mistakes in later steps are found by the workloads that run
      // the costly scenarios, and by the scenario `unwatched`.
      const bool brief = !costly || (request_.brief && !request_.workload.probe);
      if (brief && !scenario.unwatched) scenario.steps = std::min<int64_t>(scenario.steps, 2);
      // A probe (small test model) is cheap, so all of its steps are checked.
      if (request_.workload.probe) scenario.judged_from = 0;
      // The number of micro-batches becomes a power of two, so that dividing whole numbers by it is exact.
      if (workload_->sum_loss())
        scenario.accumulate = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(scenario.accumulate)));
      scenarios_.push_back(std::move(scenario));
    }
  }

  void run_scenario(Scenario& scenario) {
    if (const auto why = why_not_applicable(scenario, strategy_, *workload_, *twin_))
      return verdicts_.skip(scenario, *why);
    if (scenario.huge) return run_beyond_range(scenario);
    if (scenario.unwatched) shape_as_timed(scenario);
    run_on(scenario.smooth ? twin_bench_ : bench_, scenario);
  }

  // Gives the scenario `unwatched` the case's own batch, and as many steps as the oracle (reference computation)
  // finishes within its time limit. If even a few steps of that batch take too long, the batch becomes smaller.
  void shape_as_timed(Scenario& scenario) {
    const bool probe = request_.workload.probe;
    if (request_.own_micros > 0) scenario.accumulate = request_.own_micros;
    scenario.accumulate =
        std::clamp<int64_t>(bench_.distribution.samples / bench_.distribution.world, 1, scenario.accumulate);
    scenario.small_buckets = probe && !large_;
    // A strategy that records its steps (e.g. as CUDA graphs) records each batch size once. Ranks with different
    // batch sizes would record in different steps.
    scenario.short_batches = !strategy_.recorded;
    const int64_t few = bench_.distribution.rows_per_rank, own = request_.own_rows > 0 ? request_.own_rows : few;
    const std::string shape = from_rank0([&] {
      const auto [rows, steps] = affordable_shape(scenario, few, own, probe && !large_ ? 16 : 2);
      return std::to_string(rows) + " " + std::to_string(steps);
    });
    scenario.rows_per_rank = std::stoll(shape);
    scenario.steps = std::stoll(shape.substr(shape.find(' ')));
  }

  // Calls compute() on rank 0 and returns its result on every rank.
  std::string from_rank0(const std::function<std::string()>& compute) {
    std::string text;
    if (request_.rank == 0) {
      const Computing here;
      text = compute();
    }
    if (bench_.distribution.owners() == 1) return text;
    return broadcast_text(*request_.store, "shared/" + std::to_string(exchanges_++), request_.rank, text);
  }

  // Returns the number of samples per micro-batch and the number of steps that the time limit allows.
  std::pair<int64_t, int64_t> affordable_shape(Scenario scenario, int64_t few, int64_t own, int64_t least_steps) {
    scenario.rows_per_rank = std::min(few, own);
    const auto start = std::chrono::steady_clock::now();
    first_step(bench_, scenario);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    constexpr double at_most = 4;  // `least_steps` steps may take this multiple of the time limit
    const double row_s = took.count() / static_cast<double>(scenario.rows_per_rank),
                 rows = at_most * request_.unwatched_s / (row_s * static_cast<double>(least_steps));
    const int64_t chosen = std::max(scenario.rows_per_rank, std::min(own, static_cast<int64_t>(rows)));
    const double steps = request_.unwatched_s / (row_s * static_cast<double>(chosen));
    return {chosen, std::clamp(static_cast<int64_t>(steps), least_steps, scenario.steps)};
  }

  // Runs a scenario with a scaled loss: the sum of the ranks' gradients exceeds float16's range but each rank's own
  // gradient does not. Skipped if the ranks' gradients are too unequal for a suitable scale.
  void run_beyond_range(const Scenario& scenario) {
    std::optional<Computing> here(std::in_place);
    constexpr double float16_max = 65504;
    const ExpectedStep first = first_step(bench_, scenario);
    double own = 0, sum = 0;
    for (const auto& shard : first.shards)
      for (const auto& gradient : shard.gradient) own = std::max(own, largest_element(gradient));
    for (const auto& gradient : combine(first.shards, std::vector<double>(first.shards.size(), 1)))
      sum = std::max(sum, largest_element(gradient));
    const double factor = std::min(1.5 * float16_max / sum, 0.9 * float16_max / own);
    if (!(factor * sum > 1.05 * float16_max))
      return verdicts_.skip(scenario, "one rank's gradient is nearly as large as the sum of all");
    enlarged_.emplace(*workload_, factor);
    enlarged_bench_.emplace(Bench{strategy_, *enlarged_, bench_.distribution, bench_.rank, bench_.mesh, bench_.devices,
                                  bench_.params, bench_.seed, bench_.enters});
    here.reset();  // the calls below wait for other ranks, so this thread no longer counts as computing
    run_on(*enlarged_bench_, scenario);
  }

  void run_on(const Bench& bench, const Scenario& scenario) {
    const auto clip = clip_of(scenario);
    auto evidence = drive_and_gather(bench, scenario, clip);
    if (request_.rank == 0) verdicts_.judge(bench, scenario, clip, std::move(evidence));
    agree_to_continue();
    if (broken_ || !filter_.takes_any(scenario.repeat_checks)) return;
    evidence = drive_and_gather(bench, scenario, clip);
    if (request_.rank == 0) verdicts_.judge_again(bench, scenario, std::move(evidence), baseline_for(bench, scenario));
    agree_to_continue();
  }

  static std::optional<Evidence> baseline_for(const Bench& bench, const Scenario& scenario) {
    const Computing here;
    return baseline_of(bench, scenario);
  }

  // Returns the clipping norm of a scenario; nullopt for no clipping.
  std::optional<double> clip_of(const Scenario& scenario) {
    if (scenario.unwatched) return request_.own_clip;
    if (scenario.clip == 0) return {};
    const std::string text = from_rank0([&] {
      char exact[64];
      std::snprintf(exact, sizeof exact, "%a", norm(first_step(bench_, scenario).gradient) * scenario.clip);
      return std::string(exact);
    });
    return std::strtod(text.c_str(), nullptr);
  }

  std::vector<Evidence> drive_and_gather(const Bench& bench, const Scenario& scenario, std::optional<double> clip) {
    const Evidence own = drive(bench, scenario, clip);
    if (request_.show) request_.show(bench, scenario, clip, own);
    if (bench.distribution.owners() == 1) return {own};
    return gather_evidence(*request_.store, "evidence/" + std::to_string(exchanges_++), request_.rank,
                           bench.distribution.owners(), own);
  }

  // Sends rank 0's decision whether the process group is still usable to all ranks.
  void agree_to_continue() {
    broken_ = verdicts_.broken();
    if (bench_.distribution.owners() == 1) return;
    const auto key = "go/" + std::to_string(exchanges_++);
    broken_ = broadcast_decision(*request_.store, key, request_.rank, broken_);
  }

  void judge_beside_scenarios() {
    Rows& rows = verdicts_.finish();
    // The backend's own collectives do not depend on the workload, so they are checked only with the exact probe.
    const bool backend = workload_->sum_loss() && request_.workload.thorough && bench_.distribution.owners() > 1;
    if (!broken_ && backend && filter_.takes_any(raw_collective_checks))
      judge_raw_collectives(request_, "raw/" + std::to_string(exchanges_++), rows);
    if (request_.rank != 0 || !verdicts_.saw_steps()) return;
    const Computing here;
    if (filter_.takes_any(distribution_checks)) judge_distribution(request_, rows);
    if (filter_.takes_any(sampler_checks)) judge_sampler(request_, rows);
  }

  const CheckRequest& request_;
  const StrategyInfo strategy_;  // the strategy's properties, adjusted to the parameter values
  CheckFilter filter_;
  std::unique_ptr<Workload> workload_, twin_;
  bool large_;
  Bench bench_, twin_bench_;
  std::optional<AlteredWorkload> enlarged_;
  std::optional<Bench> enlarged_bench_;
  std::vector<Scenario> scenarios_;
  int exchanges_ = 0;
  bool broken_ = false;
  // verdicts_ is declared last: its thread, which reads the other members, ends before they are destroyed.
  Verdicts verdicts_{filter_};
};

}  // namespace

std::vector<CheckRow> run_checks(const CheckRequest& request) { return Suite(request).run(); }

}  // namespace dpbench
