#include "harness/conform/suite.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "harness/conform/distribution_checks.h"
#include "harness/conform/evidence/computing.h"
#include "harness/conform/evidence/lockstep.h"
#include "harness/conform/evidence/tensor_difference.h"
#include "harness/conform/oracle/oracle.h"
#include "harness/conform/raw_collectives.h"
#include "harness/conform/scenario/altered_workload.h"
#include "harness/conform/scenario/applicability.h"
#include "harness/conform/scenario/baseline.h"
#include "harness/conform/scenario/choose_scenarios.h"
#include "harness/conform/scenario/make_workload.h"
#include "harness/conform/verdicts.h"
#include "harness/report/base/clock.h"

namespace dpbench {
namespace {

WorkloadOptions options_of(const CheckRequest& request, bool smooth) {
  WorkloadOptions options = request.options;
  // Probes get the world size and the seed, because some depend on the world size or draw their tensors' sizes from the
  // seed.
  if (request.workload.probe) options.scale = request.world, options.seed = request.seed;
  options.smooth = smooth;
  return options;
}

int64_t samples_per_rank(const CheckRequest& request, const Workload& workload, bool refuses_one) {
  // with more than one sample, the exact probe's gradients would not be powers of two
  if (workload.sum_loss()) return 1;
  int64_t samples = drawn_samples(request.seed);
  if (request.own_samples > 0) samples = std::min(samples, std::max<int64_t>(2, request.own_samples));
  // A model that refuses one sample needs at least 5: an uneven split and the last micro-batch each halve the number,
  // rounded up, so 5 become 3, then 2.
  constexpr int64_t least_to_halve = 5;
  return refuses_one ? std::max(samples, least_to_halve) : samples;
}

Distribution distribution_of(const CheckRequest& request, const Workload& workload, bool refuses_one) {
  return {.parallelism = request.strategy.parallelism,
          .world = data_place(request.mesh.shape(), request.world, 0).replicas,
          .samples_per_rank = samples_per_rank(request, workload, refuses_one),
          .samples = workload.samples(),
          .mesh = request.mesh.shape(),
          .refuses_one = refuses_one};
}

// Returns the strategy's requested options (--param). An interval that the user did not set (e.g. steps between two
// averages of the parameters) becomes short enough for a scenario.
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

// A heavy model (see is_heavy()) skips scenarios with more steps than this, because the checks keep the tensors of each
// step. The scenario `unwatched` runs with any number of steps.
constexpr int64_t most_heavy_steps = 8;

// True if the gradients of a step of several micro-batches take gigabytes in float64.
bool is_heavy(const Workload& workload) {
  constexpr int64_t most = 1 << 24;
  int64_t elements = 0;
  for (const at::Tensor& parameter : workload.model(0)->parameters()) elements += parameter.numel();
  return elements > most;
}

CaseTraits traits_of(const CheckRequest& request, const Workload& workload) {
  const bool large = !request.long_form && is_large(request, workload);
  // The flag --filter enables the checks of costly scenarios too.
  const bool costly = request.long_form || (request.workload.thorough && !large) || !request.filter.empty();
  return {.dtype = request.dtype,
          .probe = request.workload.probe,
          .large = large,
          .heavy = is_heavy(workload),
          .costly = costly,
          .brief = request.brief,
          .own_samples = request.own_samples,
          .own_micros = request.own_micros};
}

Bench with_workload(const Bench& bench, const Workload& workload) {
  return {bench.strategy, workload,     bench.distribution, bench.rank,   bench.mesh,
          bench.devices,  bench.params, bench.seed,         bench.enters, bench.allows_idle};
}

// Returns the factor of the loss with which the sum of the ranks' gradients exceeds float16's range but each rank's own
// gradient does not. Returns nullopt if one rank's gradient is nearly as large as the sum.
std::optional<double> factor_beyond_float16(const Bench& bench, const Scenario& scenario) {
  const Computing here;
  constexpr double float16_max = 65504;
  const ExpectedStep first = first_step(bench, scenario);
  double own = 0, sum = 0;
  for (const auto& shard : first.shards)
    for (const auto& gradient : shard.gradient) own = std::max(own, largest_element(gradient));
  for (const auto& gradient : combine(first.shards, std::vector<double>(first.shards.size(), 1)))
    sum = std::max(sum, largest_element(gradient));
  const double factor = std::min(1.5 * float16_max / sum, 0.9 * float16_max / own);
  if (!(factor * sum > 1.05 * float16_max)) return std::nullopt;
  return factor;
}

// A case's strategy and the variants of its workload, e.g. with softplus instead of ReLU.
class Case {
 public:
  // strategy: the strategy's properties, adjusted to its options. The arguments must outlive this object.
  Case(const CheckRequest& request, const StrategyInfo& strategy)
      : workload_(make_workload(request.workload, options_of(request, false))),
        twin_(make_workload(request.workload, options_of(request, true))),
        not_one_(request.workload.probe ? std::nullopt : why_not_one_sample(*workload_)),
        traits_(traits_of(request, *workload_)),
        bench_{strategy,
               *workload_,
               distribution_of(request, *workload_, not_one_.has_value()),
               request.rank,
               request.mesh,
               request.devices,
               params_of(request),
               request.seed,
               request.enters,
               request.workload.probe},
        twin_bench_(with_workload(bench_, *twin_)) {}

  const CaseTraits& traits() const { return traits_; }
  const Bench& bench() const { return bench_; }
  const Bench& bench_for(const Scenario& scenario) const { return scenario.smooth ? twin_bench_ : bench_; }

  void add_params(const ParamValues& params) {
    for (auto* bench : {&bench_, &twin_bench_}) bench->params.insert(params.begin(), params.end());
  }

  // Returns the reason why the case cannot run a scenario; nullopt if it can.
  std::optional<std::string> why_not(const Scenario& scenario) const {
    if (auto why = why_not_applicable(scenario, bench_.strategy, *workload_, *twin_)) return why;
    if (traits_.heavy && scenario.steps > most_heavy_steps && !scenario.unwatched)
      return "the tensors of " + std::to_string(scenario.steps) +
             " steps of this model take too much memory; see trajectory for later steps";
    if (not_one_ && gives_one_sample(scenario, bench_.distribution, bench_.seed))
      return "the model refuses a batch of one sample: " + *not_one_;
    return std::nullopt;
  }

  // Returns the test setup with a loss that is scaled until the sum of gradients exceeds float16's range; null if no
  // factor does that. A case has at most one scenario with this setup.
  const Bench* enlarged(const Scenario& scenario) {
    const std::optional<double> factor = factor_beyond_float16(bench_, scenario);
    if (!factor) return nullptr;
    enlarged_.emplace(*workload_, *factor);
    return &enlarged_bench_.emplace(with_workload(bench_, *enlarged_));
  }

 private:
  std::unique_ptr<Workload> workload_, twin_;
  // why the model refuses to train on a batch of one sample; nullopt if it accepts one
  std::optional<std::string> not_one_;
  CaseTraits traits_;
  Bench bench_, twin_bench_;
  std::optional<AlteredWorkload> enlarged_;
  std::optional<Bench> enlarged_bench_;
};

// Runs all scenarios of a case, on all ranks in lockstep.
class Suite {
 public:
  explicit Suite(const CheckRequest& request)
      : request_(request),
        strategy_(
            promised(request.strategy, Params(request.strategy.params, params_of(request), request.strategy.name))),
        filter_(request.filter),
        case_(request, strategy_),
        ranks_(request.store, request.rank, case_.bench().distribution.owners()) {}

  std::vector<CheckRow> run() {
    if (can_be_judged() && configure_unused()) {
      scenarios_ = choose_scenarios(case_.bench(), case_.traits());
      std::erase_if(scenarios_, [&](const Scenario& one) { return !is_selected(one); });
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
  bool is_selected(const Scenario& scenario) const {
    const bool named = request_.scenarios.empty() || is_in(request_.scenarios, scenario.name);
    return named && filter_.takes_any(checks_of(scenario));
  }

  // Returns false if the model refuses float64 or draws random numbers of its own, as only models in Python do. Rank 0
  // decides, because ranks may draw different numbers.
  bool can_be_judged() {
    if (!request_.workload.python) return true;
    const std::string why = ranks_.from_rank0([&] { return why_not_judged(case_.bench().workload).value_or(""); });
    if (!why.empty()) verdicts_.finish().skipped("gradient-meaning", "a trial step", why);
    return why.empty();
  }

  // Sets the strategy's options (--param) for models with unused parameters. Returns false if the strategy cannot run
  // the model at all.
  bool configure_unused() {
    const std::string text = ranks_.from_rank0([&] {
      UnusedPlan plan = plan_for_unused(case_.bench(), request_.strategy, case_.traits().small_probe());
      verdicts_.may_refuse(std::move(plan.pattern.names));
      return text_of(plan);
    });
    const UnusedPlan plan = plan_from(text);
    if (!plan.not_runnable.empty())
      verdicts_.finish().skipped("unused-parameters", "a branch that only some ranks use", plan.not_runnable);
    case_.add_params(plan.params);
    return plan.not_runnable.empty();
  }

  void run_scenario(Scenario& scenario) {
    if (const auto why = case_.why_not(scenario)) return verdicts_.skip(scenario, *why);
    if (scenario.huge) return run_beyond_range(scenario);
    if (scenario.unwatched) fit_time_limit(scenario);
    run_on(case_.bench_for(scenario), scenario);
  }

  void fit_time_limit(Scenario& scenario) {
    const std::string text = ranks_.from_rank0([&] {
      const TimedShape shape =
          affordable_shape(scenario, case_.traits(), oracle_time_per_sample(scenario), request_.unwatched_s);
      return std::to_string(shape.samples) + " " + std::to_string(shape.steps);
    });
    scenario.samples_per_rank = std::stoll(text);
    scenario.steps = std::stoll(text.substr(text.find(' ')));
  }

  // Returns the CPU time in seconds that the oracle takes for a step, per sample of a micro-batch. A busy machine
  // hardly changes it. A step also takes time that does not depend on its samples, so it is measured with as many of
  // the timed case's samples as take little of the time limit.
  double oracle_time_per_sample(Scenario scenario) const {
    const auto step_s = [&] {
      const int64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      first_step(case_.bench(), scenario);
      return static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) * 1e-9;
    };
    constexpr int64_t growth = 4;
    constexpr double share = 0.1;
    int64_t& samples = scenario.samples_per_rank;
    step_s();  // the first step also loads what later ones reuse
    double took = step_s();
    while (samples < case_.traits().own_samples && growth * took < share * request_.unwatched_s) {
      samples = std::min(growth * samples, case_.traits().own_samples);
      took = step_s();
    }
    return took / static_cast<double>(samples);
  }

  void run_beyond_range(const Scenario& scenario) {
    const Bench* enlarged = case_.enlarged(scenario);
    if (!enlarged) return verdicts_.skip(scenario, "one rank's gradient is nearly as large as the sum of all");
    run_on(*enlarged, scenario);
  }

  void run_on(const Bench& bench, const Scenario& scenario) {
    const auto clip = clip_of(scenario);
    auto evidence = drive_and_gather(bench, scenario, clip);
    if (request_.rank == 0) verdicts_.judge(bench, scenario, clip, std::move(evidence));
    // wait until the evidence is judged: memory may not hold the evidence of two scenarios of a heavy model
    if (case_.traits().heavy) verdicts_.finish();
    broken_ = ranks_.agreed(verdicts_.broken());
    if (broken_ || !filter_.takes_any(scenario.repeat_checks)) return;
    evidence = drive_and_gather(bench, scenario, clip);
    if (request_.rank == 0) verdicts_.judge_again(bench, scenario, std::move(evidence), baseline_for(bench, scenario));
    broken_ = ranks_.agreed(verdicts_.broken());
  }

  static std::optional<Evidence> baseline_for(const Bench& bench, const Scenario& scenario) {
    const Computing here;
    return baseline_of(bench, scenario);
  }

  // Returns the clipping norm of a scenario; nullopt for no clipping.
  std::optional<double> clip_of(const Scenario& scenario) {
    if (scenario.unwatched) return request_.own_clip;
    if (scenario.clip == 0) return {};
    const std::string text = ranks_.from_rank0([&] {
      char exact[64];
      std::snprintf(exact, sizeof exact, "%a", norm(first_step(case_.bench(), scenario).gradient) * scenario.clip);
      return std::string(exact);
    });
    return std::strtod(text.c_str(), nullptr);
  }

  std::vector<Evidence> drive_and_gather(const Bench& bench, const Scenario& scenario, std::optional<double> clip) {
    const Evidence own = drive(bench, scenario, clip);
    if (request_.show) request_.show(bench, scenario, clip, own);
    return ranks_.gathered(own);
  }

  void judge_beside_scenarios() {
    Rows& rows = verdicts_.finish();
    // The backend's own collectives do not depend on the workload, so they are checked only with the exact probe.
    const bool backend =
        case_.bench().workload.sum_loss() && request_.workload.thorough && case_.bench().distribution.owners() > 1;
    if (!broken_ && backend && filter_.takes_any(raw_collective_checks))
      judge_raw_collectives(request_, ranks_.next_key("raw"), rows);
    if (request_.rank != 0 || !verdicts_.saw_steps()) return;
    const Computing here;
    if (filter_.takes_any(distribution_checks)) judge_distribution(request_, rows);
    if (filter_.takes_any(sampler_checks)) judge_sampler(request_, rows);
  }

  const CheckRequest& request_;
  const StrategyInfo strategy_;  // the strategy's properties, adjusted to its options
  CheckFilter filter_;
  Case case_;
  Lockstep ranks_;
  std::vector<Scenario> scenarios_;
  bool broken_ = false;  // rank 0's decision that the process group is unusable
  // verdicts_ is declared last: its thread, which reads the other members, ends before they are destroyed.
  Verdicts verdicts_{filter_};
};

}  // namespace

std::vector<CheckRow> run_checks(const CheckRequest& request) { return Suite(request).run(); }

}  // namespace dpbench
