#include "harness/conform/possible.h"

#include <ATen/ATen.h>

#include "harness/conform/compare.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

bool declares(const StrategyInfo& strategy, const std::string& param) {
  for (const auto& info : strategy.params)
    if (info.name == param) return true;
  return false;
}

bool differ(const Workload& workload, const Workload& twin) {
  const auto output = [](const Workload& of) {
    const at::NoGradGuard no_grad;
    const Batch batch = of.batch(at::arange(2));
    return of.model(1)->forward(batch.input, Context{0, 0, batch.ids});
  };
  return !same_bits(output(workload), output(twin));
}

// What the strategy says to find_unused beside the other values of its parameters, if it does not take it.
std::optional<std::string> refusal_to_find_unused(const Bench& bench, const StrategyInfo& registered) {
  auto params = bench.params;
  if (bench.strategy.same_graph || !params.emplace("find_unused", "on").second) return {};
  try {
    promised(registered, Params(registered.params, params, registered.name));
    return {};
  } catch (const UsageError& error) {
    return error.what();
  }
}

bool looks_for_unused(const Bench& bench, const StrategyInfo& strategy) {
  return declares(strategy, "find_unused") && Params(strategy.params, bench.params, strategy.name).flag("find_unused");
}

// Unused parameters need no word there; but what is recorded once takes no other way later.
UnusedPlan plan_for_one_process(const Bench& bench, bool probe) {
  UnusedPlan plan;
  if (!bench.strategy.same_graph || (!probe && all_used_at_first(bench)) || !graph_changes(bench)) return plan;
  plan.impossible = bench.strategy.name + " needs the same graph in every step and on every replica, and was asked to rely on it";
  return plan;
}

}  // namespace

std::optional<std::string> not_possible(const Scenario& scenario, const StrategyInfo& strategy, const Workload& workload,
                                        const Workload& twin) {
  if (scenario.smooth && strategy.reduced_in)
    return "gradients travel in " + std::string(at::toString(*strategy.reduced_in)) + ", as asked";
  if (scenario.smooth && !differ(workload, twin)) return "the workload has no smooth twin";
  if (scenario.late && strategy.recorded) return "the device has the collectives of a recorded step, which cannot be made late";
  if (scenario.rows != Split::few || strategy.parallelism != Parallelism::ranks) return {};
  if (!declares(strategy, "join")) return strategy.name + " has no parameter join: every rank must have rows";
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
  if (strategy.same_graph && (on_some_ranks || (!looks_for_unused(bench, strategy) && graph_changes(bench))))
    return impossible(" needs the same graph in every step and on every rank, and was asked to rely on it");
  if (on_some_ranks && strategy.buffers == Buffers::synchronised)
    return impossible(" makes one batch of all ranks' rows, which can take only one branch");
  if (!declares(strategy, "find_unused"))
    return on_some_ranks ? impossible(" has no parameter find_unused: such a model would hang it") : plan;
  if (const auto why = refusal_to_find_unused(bench, registered))
    return impossible(" is asked for what does not go with find_unused: " + *why);
  plan.ask_to_find = !strategy.same_graph;
  auto params = bench.params;
  if (plan.ask_to_find) params.emplace("find_unused", "on");
  // A recorded step looks for nothing either: what no rank ever uses it may take, or refuse by name.
  if ((strategy.same_graph && !strategy.recorded) || Params(strategy.params, params, strategy.name).flag("find_unused"))
    plan.pattern = {};
  else if (on_some_ranks)
    return impossible(" is asked not to look for unused parameters: such a model would hang it");
  return plan;
}

}  // namespace dpbench
