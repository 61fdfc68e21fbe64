#include "harness/conform/scenario/applicability.h"

#include <ATen/ATen.h>

#include "harness/conform/evidence/exception_text.h"
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

bool can_be_poisoned(const Workload& workload) {
  const Batch batch = workload.batch(at::arange(1));
  return batch.input.is_floating_point() || batch.target.is_floating_point();
}

std::string text_of(const ParamValues& values) {
  std::string text;
  for (const auto& [name, value] : values) text += (text.empty() ? "" : ", ") + name + "=" + value;
  return text;
}

// Decides how a strategy that runs in a single process is checked with unused parameters. The strategy must accept
// every model, unless it requires the same autograd graph in every step and the model's graph changes. probe: the model
// is a probe (a small test model).
UnusedPlan plan_for_one_process(const Bench& bench, bool probe) {
  UnusedPlan plan;
  if (!bench.strategy.same_graph || (!probe && first_steps_use_all(bench)) || !graph_changes(bench)) return plan;
  plan.not_runnable =
      bench.strategy.name + " is configured to rely on the same graph in every step and on every replica";
  return plan;
}

}  // namespace

std::optional<std::string> why_not_applicable(const Scenario& scenario, const StrategyInfo& strategy,
                                              const Workload& workload, const Workload& twin) {
  if ((scenario.smooth || scenario.perturbed) && strategy.reduced_in)
    return "gradients are communicated in " + std::string(at::toString(*strategy.reduced_in)) + ", as requested";
  if (scenario.poison && !can_be_poisoned(workload)) return "the samples are whole numbers, which cannot be NaN";
  if (scenario.smooth && !workload.is_smooth() && !differ(workload, twin))
    return "the workload is not smooth and has no smooth twin";
  if (scenario.late && strategy.recorded)
    return "collectives of a recorded step run on the device and cannot be delayed";
  if (scenario.split != Split::few || strategy.parallelism != Parallelism::ranks) return {};
  if (!strategy.allows_no_samples && strategy.settings.allow_no_samples.empty())
    return strategy.name + " needs samples on every rank";
  if (!strategy.own.empty() || strategy.gradient == Gradient::local)
    return "a rank without samples has no gradient for its own parameters";
  return {};
}

std::optional<std::string> why_not_one_sample(const Workload& workload) {
  // A negative step number: in such a step, an exception in a Python model prints no traceback. A model may refuse one
  // sample.
  constexpr int64_t trial = -1;
  const at::NoGradGuard no_grad;
  const auto model = workload.model(1);
  const auto refusal = [&](int64_t samples) -> std::optional<std::string> {
    try {
      const Batch batch = workload.batch(at::arange(samples));
      model->forward(batch.input, Context{0, trial, batch.ids});
      return std::nullopt;
    } catch (const std::exception& error) {
      return message_of(error);
    }
  };
  std::optional<std::string> why = refusal(1);
  return why && !refusal(2) ? why : std::nullopt;
}

UnusedPlan plan_for_unused(const Bench& bench, const StrategyInfo& registered, bool probe) {
  const StrategyInfo& strategy = bench.strategy;
  if (strategy.parallelism != Parallelism::ranks) return plan_for_one_process(bench, probe);
  if (!probe && first_steps_use_all(bench)) return {};
  UnusedPlan plan{.pattern = unused_pattern(bench)};
  if (plan.pattern.names.empty()) return plan;
  const bool on_some_ranks = plan.pattern.some_ranks;
  const auto refuse = [&](const std::string& why) {
    plan.not_runnable = strategy.name + why;
    return plan;
  };
  if (strategy.same_graph && (on_some_ranks || (!strategy.allows_unused && graph_changes(bench))))
    return refuse(" is configured to rely on the same graph in every step and on every rank");
  if (on_some_ranks && strategy.buffers == Buffers::synchronised && !first_model(bench)->buffers().empty())
    return refuse(" treats the samples of all ranks as one batch, which can take only one branch");
  const ParamValues& asking = registered.settings.allow_unused;
  if (!strategy.same_graph) plan.params = asking;
  auto params = bench.params;
  params.insert(plan.params.begin(), plan.params.end());
  bool allowed = false;
  try {
    allowed = promised(registered, Params(registered.params, params, registered.name)).allows_unused;
  } catch (const UsageError& error) {
    return refuse(": its parameters are incompatible with " + text_of(asking) + ": " + error.what());
  }
  // A strategy that neither allows unused parameters nor relies on the same graph may stop with an error that names the
  // parameters that no rank uses. So may a strategy that records its steps and replays them, because it does not search
  // for unused parameters.
  if (allowed || (strategy.same_graph && !strategy.recorded))
    plan.pattern = {};
  else if (on_some_ranks)
    return refuse(asking.empty() ? " does not allow ranks to use different parameters: the model would hang it"
                                 : " is configured not to find unused parameters: the model would hang it");
  return plan;
}

// Format of the text: one line "name=value" per option of the strategy, an empty line, and the reason why the strategy
// cannot run the model, which may have several lines.
std::string text_of(const UnusedPlan& plan) {
  std::string text;
  for (const auto& [name, value] : plan.params) text += name + "=" + value + "\n";
  return text + "\n" + plan.not_runnable;
}

UnusedPlan plan_from(const std::string& text) {
  UnusedPlan plan;
  size_t line = 0;
  for (size_t end = text.find('\n'); end > line; line = end + 1, end = text.find('\n', line)) {
    const size_t equals = text.find('=', line);
    plan.params.emplace(text.substr(line, equals - line), text.substr(equals + 1, end - equals - 1));
  }
  plan.not_runnable = text.substr(line + 1);
  return plan;
}

}  // namespace dpbench
