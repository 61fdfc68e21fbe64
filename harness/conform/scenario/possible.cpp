#include "harness/conform/scenario/possible.h"

#include <ATen/ATen.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

bool differ(const Workload& workload, const Workload& twin) {
  const auto output = [](const Workload& of) {
    const at::NoGradGuard no_grad;
    const Batch batch = of.batch(at::arange(2));
    return of.model(1)->forward(batch.input, Context{0, 0, batch.ids});
  };
  return !same_bits(output(workload), output(twin));
}

std::string words_of(const ParamValues& values) {
  std::string text;
  for (const auto& [name, value] : values) text += (text.empty() ? "" : ", ") + name + "=" + value;
  return text;
}

// Unused parameters need no word there; but what is recorded once takes no other way later.
UnusedPlan plan_for_one_process(const Bench& bench, bool probe) {
  UnusedPlan plan;
  if (!bench.strategy.same_graph || (!probe && all_used_at_first(bench)) || !graph_changes(bench)) return plan;
  plan.impossible =
      bench.strategy.name + " needs the same graph in every step and on every replica, and was asked to rely on it";
  return plan;
}

}  // namespace

std::optional<std::string> not_possible(const Scenario& scenario, const StrategyInfo& strategy,
                                        const Workload& workload, const Workload& twin) {
  if (scenario.smooth && strategy.reduced_in)
    return "gradients travel in " + std::string(at::toString(*strategy.reduced_in)) + ", as asked";
  if (scenario.smooth && !differ(workload, twin)) return "the workload has no smooth twin";
  if (scenario.late && strategy.recorded)
    return "the device has the collectives of a recorded step, which cannot be made late";
  if (scenario.rows != Split::few || strategy.parallelism != Parallelism::ranks) return {};
  if (!strategy.allows_no_rows && strategy.settings.allow_no_rows.empty())
    return strategy.name + " needs rows on every rank";
  if (!strategy.own.empty() || strategy.gradient == Gradient::local)
    return "a rank without rows has no gradient for a parameter that is its own";
  return {};
}

UnusedPlan plan_for_unused(const Bench& bench, const StrategyInfo& registered, bool probe) {
  const StrategyInfo& strategy = bench.strategy;
  if (strategy.parallelism != Parallelism::ranks) return plan_for_one_process(bench, probe);
  if (!probe && all_used_at_first(bench)) return {};
  UnusedPlan plan{.pattern = unused_pattern(bench)};
  if (plan.pattern.names.empty()) return plan;
  const bool on_some_ranks = plan.pattern.some_ranks;
  const auto impossible = [&](const std::string& why) {
    plan.impossible = strategy.name + why;
    return plan;
  };
  if (strategy.same_graph && (on_some_ranks || (!strategy.allows_unused && graph_changes(bench))))
    return impossible(" needs the same graph in every step and on every rank, and was asked to rely on it");
  if (on_some_ranks && strategy.buffers == Buffers::synchronised)
    return impossible(" makes one batch of all ranks' rows, which can take only one branch");
  const ParamValues& asking = registered.settings.allow_unused;
  if (!strategy.same_graph) plan.params = asking;
  auto params = bench.params;
  params.insert(plan.params.begin(), plan.params.end());
  bool allowed = false;
  try {
    allowed = promised(registered, Params(registered.params, params, registered.name)).allows_unused;
  } catch (const UsageError& error) {
    return impossible(" is asked for what does not go with " + words_of(asking) + ": " + error.what());
  }
  // A recorded step looks for nothing either: what no rank ever uses it may take, or refuse by name.
  if (allowed || (strategy.same_graph && !strategy.recorded))
    plan.pattern = {};
  else if (on_some_ranks)
    return impossible(asking.empty() ? " does not allow ranks to use different parameters: such a model would hang it"
                                     : " is asked not to look for unused parameters: such a model would hang it");
  return plan;
}

}  // namespace dpbench
