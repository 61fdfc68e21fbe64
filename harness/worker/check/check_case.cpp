#include "harness/worker/check/check_case.h"

#include <algorithm>
#include <limits>

#include <ATen/Context.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/exchange.h"
#include "harness/conform/suite.h"
#include "harness/report/record/report.h"
#include "harness/report/text/first_line.h"
#include "harness/worker/check/dump.h"
#include "harness/worker/steps/case_setup.h"
#include "harness/worker/steps/tensor_checks.h"

namespace dpbench {
namespace {

// Keeps the first failure of each kind (exception, mismatch between ranks, non-finite value) on this rank.
class Failures {
 public:
  static constexpr int64_t never = std::numeric_limits<int64_t>::max();

  explicit Failures(const CaseSpec& spec) : spec_(spec) {}

  void observe(const Scenario& scenario, const Evidence& evidence) {
    std::string& kind = evidence.echo ? peer_mismatch : exception;
    if (!evidence.error.empty() && !evidence.refused() && kind.empty())
      kind = first_line(evidence.error) + place(scenario, ", step " + std::to_string(evidence.steps.size()));
    const bool feature = evidence.refusal == Refusal::scenario && has_unused_feature(scenario);
    refusal = std::max(refusal, feature ? Refusal::feature : evidence.refusal);
    const bool intended = scenario.poison || scenario.huge;
    for (size_t step = 0; step < evidence.steps.size() && !intended && when == never; ++step)
      check_finite(scenario, evidence.steps[step], static_cast<int64_t>(step));
    ++scenarios_;
  }

  std::string exception, peer_mismatch, not_finite;
  // What the strategy has refused to run so far.
  Refusal refusal = Refusal::none;
  // Position of the first non-finite value in the order of scenarios (test runs of the strategy), their steps, and the
  // kinds of value (loss, gradient, parameter). The positions on different ranks are comparable, because all ranks run
  // the same scenarios.
  int64_t when = never;

 private:
  static std::string place(const Scenario& scenario, const std::string& step = "") {
    return " (in the checks: scenario " + scenario.name + step + ")";
  }

  // True if the scenario has micro-batches, clipping, load() or ranks without samples, and steps of the timed case do
  // not have this; and in bfloat16, because a strategy that refuses it is not timed in it either.
  bool has_unused_feature(const Scenario& scenario) const {
    return (scenario.accumulate > 1 && spec_.accumulate == 1) || (scenario.clip > 0 && !spec_.clip_norm) ||
           scenario.reload_before > 0 || scenario.first > 0 || scenario.split == Split::few ||
           scenario.dtype == at::kBFloat16;
  }

  void check_finite(const Scenario& scenario, const StepEvidence& seen, int64_t step) {
    const auto found = first_not_finite(step, seen.loss, seen.gradients, seen.parameters);
    if (!found) return;
    when = (scenarios_ * 1'000'000 + step) * 3 + static_cast<int64_t>(found->of);
    not_finite = found->text + place(scenario);
  }

  const CaseSpec& spec_;
  int64_t scenarios_ = 0;
};

// Makes cuDNN deterministic during the conformance checks, because a varying order of summation would be blamed on the
// strategy. Timed steps use torch's default.
class DeterministicCudnn {
 public:
  DeterministicCudnn() { at::globalContext().setDeterministicCuDNN(true); }
  ~DeterministicCudnn() { at::globalContext().setDeterministicCuDNN(before_); }
  DeterministicCudnn(const DeterministicCudnn&) = delete;
  DeterministicCudnn& operator=(const DeterministicCudnn&) = delete;

 private:
  bool before_ = at::globalContext().deterministicCuDNN();
};

// Returns the rank that produced a non-finite value first, or -1 if all values are finite. Collective: every rank must
// call it; ranks communicate through `store`, the c10d store, under keys that begin with `key`.
int first_non_finite_rank(c10d::Store& store, const std::string& key, int rank, int world, int64_t when) {
  int first = -1;
  int64_t least = Failures::never;
  const auto all = gather_texts(store, key, rank, world, std::to_string(when));
  for (size_t r = 0; r < all.size(); ++r)
    if (const int64_t position = std::stoll(all[r]); position < least) least = position, first = static_cast<int>(r);
  return std::stoi(broadcast_text(store, key + ".first", rank, std::to_string(first)));
}

// Returns the request to check a case with the seed `spec.seed`. The caller must still set two members of the request:
// the callback `show` and the rendezvous store.
CheckRequest request_of(const CaseSpec& spec, const SuiteOptions& options, const Group& group, Pulse& pulse,
                        const std::string& shared_dir) {
  const StrategyInfo& strategy = strategy_registry().at(spec.strategy);
  const WorkloadInfo& workload = workload_registry().at(spec.workload);
  const bool ranks = strategy.parallelism == Parallelism::ranks;
  const int64_t own_samples = std::max<int64_t>(1, spec.global_batch() / (spec.replicas() * spec.accumulate));
  return {.strategy = strategy,
          .workload = workload,
          .options = workload_options(spec, shared_dir),
          .rank = group.rank(),
          .world = spec.world,
          .store = {},
          .mesh = mesh_of(spec, strategy, group),
          .devices = group.devices(ranks ? 1 : spec.world, spec.oversubscribe),
          .dtype = scalar_type(spec.dtype),
          .params = spec.params,
          .seed = spec.seed,
          .own_samples = workload.probe ? 0 : own_samples,
          .own_micros = workload.probe ? 0 : spec.accumulate,
          .own_clip = spec.clip_norm,
          .unwatched_s = options.unwatched_s,
          .long_form = spec.world <= options.whole_worlds,
          .brief = options.brief,
          .filter = options.filter,
          .scenarios = options.scenarios,
          .show = {},
          .begins = options.begins,
          .enters = [&](const std::string& place) { pulse.place(place); }};
}

// Returns why this rank's timed steps would fail. first_non_finite: the rank that produced a non-finite value first.
std::optional<CheckFailure> failure_of(const Failures& failures, int rank, int first_non_finite) {
  if (!failures.exception.empty()) return CheckFailure{FailureKind::failure, failures.exception};
  if (first_non_finite == rank) return CheckFailure{FailureKind::nan, failures.not_finite};
  if (!failures.peer_mismatch.empty()) return CheckFailure{FailureKind::peer, failures.peer_mismatch};
  return std::nullopt;
}

}  // namespace

std::vector<std::string> scenarios_before_timing(const CaseSpec& spec) {
  std::vector<std::string> names = {"even", "working", "uneven", "uneven-working", "perturbed", "unwatched"};
  if (spec.accumulate > 1) names.insert(names.end(), {"accumulate", "accumulate-working", "uneven-accumulate"});
  if (spec.clip_norm) names.insert(names.end(), {"clip", "clip-working", "clip-unreached"});
  return names;
}

std::string checks_before_timing(const CaseSpec& spec) {
  const std::vector<std::string> run = scenarios_before_timing(spec);
  std::string names;
  for (Scenario& scenario : scenarios({.world = spec.world}, scalar_type(spec.dtype), /*costly=*/true, spec.seed)) {
    if (!is_in(run, scenario.name)) continue;
    scenario.repeat_checks.clear();
    for (const std::string& check : checks_of(scenario)) names += (names.empty() ? "" : "|") + check;
  }
  return "^(" + names + ")$";
}

CheckedCase check_case(const CaseSpec& spec, const SuiteOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir) {
  const DeterministicCudnn deterministic;
  const bool ranks = strategy_registry().at(spec.strategy).parallelism == Parallelism::ranks;
  const bool several = ranks && spec.world > 1;
  // Number of earlier calls of check_case(). Equal on every rank, so it makes the keys of each call in the c10d store
  // unique.
  static int calls = 0;
  const std::string prefix = "check" + std::to_string(calls++);
  // Returns rank 0's `value` on all ranks. Uses the c10d store, because a check may have broken the process group.
  const auto decided_by_rank0 = [&](const std::string& key, bool value) {
    return several ? broadcast_decision(*group.store(), prefix + key, group.rank(), value) : value;
  };
  Rows rows;  // one row per check, with its worst result over all random seeds
  std::optional<Dump> dump;
  if (!options.dump.empty()) dump.emplace(options.dump, spec, group.rank());
  Failures failures(spec);
  CheckRequest request = request_of(spec, options, group, pulse, shared_dir);
  request.show = [&](const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                     const Evidence& evidence) {
    if (dump) dump->add(bench, scenario, clip_norm, evidence);
    failures.observe(scenario, evidence);
    pulse.beat();
  };
  bool whole = true;
  for (int seed = 0; seed < options.seeds && whole; ++seed) {
    request.seed = spec.seed + static_cast<uint64_t>(seed);
    if (ranks)
      request.store = c10::make_intrusive<c10d::PrefixStore>(prefix + "." + std::to_string(seed), group.store());
    for (CheckRow row : run_checks(request)) {
      if (options.seeds > 1 && row.status == CheckStatus::failed)
        row.detail += " (--seed " + std::to_string(request.seed) + ")";
      rows.add(row);
    }
    pulse.beat();
    const CheckRow* completed = rows.find(Rows::completion);
    const bool broken = completed && completed->status == CheckStatus::failed;
    whole = decided_by_rank0(".end" + std::to_string(seed), !broken);
  }
  pulse.place("");
  if (dump) dump->finish();
  const int first =
      several ? first_non_finite_rank(*group.store(), prefix + ".finite", group.rank(), spec.world, failures.when)
      : failures.when == Failures::never ? -1
                                         : 0;
  const bool sound = decided_by_rank0(".right", !any_failed(rows.all())) && whole && first < 0;
  return {.rows = rows.all(),
          .group_whole = whole,
          .sound = sound,
          .refusal = failures.refusal,
          .failure = failure_of(failures, group.rank(), first)};
}

}  // namespace dpbench
