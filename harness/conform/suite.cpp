#include "harness/conform/suite.h"

#include <algorithm>
#include <regex>

#include <ATen/ATen.h>

#include "harness/conform/altered_workload.h"
#include "harness/conform/compare.h"
#include "harness/conform/exchange.h"
#include "harness/conform/judges.h"
#include "harness/conform/judging.h"
#include "harness/conform/layout_checks.h"
#include "harness/conform/possible.h"
#include "harness/conform/raw_collectives.h"

namespace dpbench {
namespace {

using Names = std::vector<std::string>;

const std::vector<Judge> judges = {judge_start,     judge_outputs, judge_gradients, judge_replay,    judge_accuracy,
                                   judge_strides,   judge_unused,    judge_agreement, judge_buffers, judge_optimizer, judge_poison,
                                   judge_evaluation, judge_reductions, judge_learning, judge_rows, judge_ending};

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

// What the request asks for, and for a parameter of more steps than a scenario has a value that shows in them.
std::map<std::string, std::string> params_of(const CheckRequest& request) {
  auto params = request.params;
  for (const auto& info : request.strategy.params)
    if (info.name == "average_every") params.emplace(info.name, "2");
  return params;
}

class Suite {
 public:
  explicit Suite(const CheckRequest& request)
      : request_(request),
        strategy_(promised(request.strategy, Params(request.strategy.params, params_of(request), request.strategy.name))),
        filter_(request.filter, std::regex::extended | std::regex::optimize),
        workload_(request.workload.make(options_of(request, false))),
        twin_(request.workload.make(options_of(request, true))),
        bench_{strategy_, *workload_, layout_of(request, *workload_), request.rank,
               request.group,    request.devices, params_of(request),         request.seed},
        twin_bench_{strategy_, *twin_, bench_.layout, request.rank, request.group, request.devices, params_of(request),
                    request.seed} {}

  std::vector<CheckRow> run() {
    if (announce_unused()) {
      // Who asks for checks by name gets them.
      const bool costly = request_.long_form || request_.workload.thorough || !request_.filter.empty();
      scenarios_ = scenarios(bench_.layout, request_.dtype, costly);
      for (auto& scenario : scenarios_) {
        if (request_.workload.probe) scenario.judged_from = 0;  // which costs next to nothing
        scenario.losses_alone = scenario.learns && !matches(scenario.gradient_check);
      }
      for (const auto& scenario : scenarios_)
        if (wanted(scenario)) one(scenario);
      judging_.finish();
      if (!broken_ && backend_asked()) judge_raw_collectives(request_, "raw/" + std::to_string(exchanges_++), rows_);
      const bool judged = refused_ == 0 || judged_ > 0;  // else nothing of what it does was seen
      if (request_.rank == 0 && judged && matches("chunk-tables")) judge_layout(request_, rows_);
      if (request_.rank == 0 && judged && (matches("data-each-once") || matches("epoch-order"))) judge_sampler(request_, rows_);
    }
    std::vector<CheckRow> chosen;
    for (const auto& row : rows_.all())
      if (request_.rank == 0 && (matches(row.name) || (row.name == "run-completes" && row.status == "failed")))
        chosen.push_back(row);
    return chosen;
  }

 private:
  // It says nothing of the strategy: the one workload that is about exactness is enough.
  bool backend_asked() const {
    if (!workload_->sum_loss() || bench_.layout.owners() == 1) return false;
    return matches("allreduce-exact") || matches("broadcast-exact") || matches("allgather-exact") || matches("reduce-scatter-exact");
  }

  bool matches(const std::string& name) const { return request_.filter.empty() || std::regex_search(name, filter_); }

  bool repeat_asked() const { return matches("run-to-run") || (matches("world-1-bits") && request_.world == 1); }

  bool wanted(const Scenario& scenario) const {
    if (broken_ || (scenario.huge && strategy_.reduced_in != at::kHalf)) return false;
    const auto names = checks_of(scenario);
    return std::any_of(names.begin(), names.end(), [this](const auto& name) { return matches(name); });
  }

  // False: nothing can be run.
  bool announce_unused() {
    const UnusedPlan plan = plan_for_unused(bench_, request_.strategy, request_.workload.probe);
    if (!plan.impossible.empty()) rows_.skipped("unused-parameters", "a branch that only some ranks use", plan.impossible);
    for (auto* params : {&bench_.params, &twin_bench_.params})
      if (plan.ask_to_find) params->emplace("find_unused", "on");
    unused_ = plan.pattern.names;
    return plan.impossible.empty();
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
    if (bench_.layout.owners() == 1) return;
    const auto key = "go/" + std::to_string(exchanges_++);
    broken_ = from_rank0(*request_.store, key, request_.rank, broken_ ? "stop" : "go") == "stop";
  }

  std::optional<double> clip_of(const Scenario& scenario) {
    if (scenario.clip == 0) return {};
    return norm(first_step(bench_, scenario).gradient) * scenario.clip;  // the same on every rank: the same arithmetic on the same model
  }

  void one(const Scenario& scenario) {
    if (const auto why = not_possible(scenario, strategy_, *workload_, *twin_)) {
      skip(scenario, *why);
      return;
    }
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
      return skip(scenario, "one rank's gradient is nearly as large as the sum of all");
    enlarged_.emplace(*workload_, factor);
    enlarged_bench_.emplace(Bench{strategy_, *enlarged_, bench_.layout, bench_.rank, bench_.group, bench_.devices, bench_.params, bench_.seed});
    carry_out(*enlarged_bench_, scenario);
  }

  static double largest(const at::Tensor& tensor) { return tensor.numel() ? tensor.abs().max().item<double>() : 0; }

  void carry_out(const Bench& bench, const Scenario& scenario) {
    const auto clip = clip_of(scenario);
    auto evidence = driven(bench, scenario, clip);
    if (request_.rank == 0 && fit_to_judge(scenario, evidence))
      judging_.later(scenario, [this, &bench, &scenario, clip, evidence = std::move(evidence)] { judge(bench, scenario, clip, evidence); });
    agree_to_go_on();
    if (scenario.name == "working" && !broken_ && repeat_asked()) again(bench, scenario);
  }

  void skip(const Scenario& scenario, const std::string& why) {
    judging_.later(scenario, [this, &scenario, why] { rows_.skipped(scenario.gradient_check, "scenario " + scenario.name, why); });
  }

  void judge(const Bench& bench, const Scenario& scenario, std::optional<double> clip, std::vector<Evidence> evidence) {
    if (scenario.losses_alone) return judge_learning(Trial{bench, scenario, clip, std::move(evidence), {}, {}, {}}, rows_);
    Trial trial = make_trial(bench, scenario, clip, std::move(evidence));
    for (const Judge judge : judges) judge(trial, rows_);
    if (scenario.name == "accumulate" && strategy_.buffers == Buffers::synchronised)
      rows_.skipped("collective-count", "reductions of a step with micro-batches as many as of one without",
                    "BatchNorm reduces in every forward and backward pass as well");
    else if (scenario.name == "accumulate" && kept_.contains("even"))
      judge_collective_count(kept_.at("even"), trial, rows_);
    // Of a large model these are gigabytes.
    const bool counted = scenario.name == "even" && matches("collective-count"), repeated = scenario.name == "working" && repeat_asked();
    if (counted || repeated) kept_.emplace(scenario.name, std::move(trial));
  }

  // Did all ranks come to the end? Says why where they did not.
  bool fit_to_judge(const Scenario& scenario, const std::vector<Evidence>& evidence) {
    size_t refused = 0;
    for (const auto& one : evidence) refused += one.refused;
    if (refused == evidence.size()) {
      ++refused_;
      skip(scenario, "refused: " + evidence[0].error);
      return false;
    }
    ++judged_;
    bool whole = true;
    for (const auto& one : evidence) {
      whole = whole && one.error.empty();
      broken_ = broken_ || one.interrupted || (one.refused && refused < evidence.size());
    }
    if (!whole && refusal_names_the_unused(scenario, evidence)) return false;
    const Evidence* cause = nullptr;  // of those that did not
    for (const auto& one : evidence)
      if (!one.error.empty() && (!cause || (cause->echo && !one.echo))) cause = &one;
    const std::string why = cause ? place_of_error(*cause, scenario) + ": " + cause->error : "";
    judging_.later(scenario, [this, whole, why] { rows_.judged("run-completes", all_steps_done, whole, why); });
    return whole;
  }

  // The other right answer to a parameter that no rank uses: an error that names it.
  bool refusal_names_the_unused(const Scenario& scenario, const std::vector<Evidence>& evidence) {
    if (unused_.empty()) return false;
    for (const auto& one : evidence)
      for (const auto& name : unused_)
        if (one.error.find(name) == std::string::npos) return false;
    judging_.later(scenario, [this] {
      rows_.judged("unused-parameters", "an error that names the parameter which no rank used", true, "");
    });
    return true;
  }

  void again(const Bench& bench, const Scenario& scenario) {
    auto evidence = driven(bench, scenario, {});
    if (request_.rank == 0 && fit_to_judge(scenario, evidence))
      judging_.later(scenario, [this, &bench, &scenario, evidence = std::move(evidence), baseline = baseline_of(scenario)] {
        const auto known = kept_.find("working");
        if (known == kept_.end()) return;
        const Trial second{bench, scenario, {}, evidence, {}, {}, {}};
        judge_repeat(known->second, second, strategy_.repeatable, rows_);
        if (strategy_.reduced_in)
          rows_.skipped("world-1-bits", "gradients and parameters of a world of 1 with the baseline's, bit for bit",
                        "gradients travel in " + std::string(at::toString(*strategy_.reduced_in)) + ", as asked");
        else if (baseline)
          judge_same_bits_as_baseline(known->second, *baseline, rows_);
      });
    agree_to_go_on();
  }

  // The parameters of a baseline with which its products are the strategy's.
  std::map<std::string, std::string> same_products(const StrategyInfo& baseline) const {
    for (const Variant& variant : baseline.variants)
      if (strategy_.onednn && promised(baseline, Params(baseline.params, variant.params, baseline.name)).onednn) return variant.params;
    return {};
  }

  // What the single device does, which a world of 1 is held against.
  std::optional<Evidence> baseline_of(const Scenario& scenario) const {
    if (request_.world != 1 || strategy_.parallelism == Parallelism::single || strategy_.reduced_in) return {};
    for (const auto& info : strategy_registry().all()) {
      const bool fits = request_.devices[0].is_cpu() ? info.cpu : info.cuda;
      if (info.parallelism != Parallelism::single || !fits) continue;
      const auto params = same_products(info);
      const StrategyInfo with_them = promised(info, Params(info.params, params, info.name));
      const Bench baseline{with_them, *workload_, {Parallelism::single, 1, bench_.layout.rows_per_rank, bench_.layout.samples},
                           0,         {},         {request_.devices[0]}, params, request_.seed};
      return drive(baseline, scenario, {});
    }
    return {};
  }

  const CheckRequest& request_;
  const StrategyInfo strategy_;  // with what the parameters' values change in its promises
  std::regex filter_;
  std::unique_ptr<Workload> workload_, twin_;
  Bench bench_, twin_bench_;
  std::optional<AlteredWorkload> enlarged_;
  std::optional<Bench> enlarged_bench_;
  std::vector<Scenario> scenarios_;
  Names unused_;  // which the strategy may refuse by name
  Rows rows_;
  std::map<std::string, Trial> kept_;
  int exchanges_ = 0, refused_ = 0, judged_ = 0;
  bool broken_ = false;
  Judging judging_{rows_};  // last: its thread ends before what it uses
};

}  // namespace

std::vector<CheckRow> run_checks(const CheckRequest& request) try {
  return Suite(request).run();
} catch (const std::regex_error&) {
  throw UsageError("--filter " + request.filter + " is not a regular expression");
}

}  // namespace dpbench
