#include "harness/conform/scenario/baseline.h"

namespace dpbench {
namespace {

StrategyInfo with(const StrategyInfo& info, const ParamValues& params) {
  return promised(info, Params(info.params, params, info.name));
}

// Returns the options with which the baseline (the single-device strategy) uses oneDNN for matrix products if
// `strategy` does.
ParamValues same_products(const StrategyInfo& baseline, const StrategyInfo& strategy) {
  for (const Variant& variant : baseline.variants)
    if (strategy.onednn && with(baseline, variant.params).onednn) return variant.params;
  return {};
}

}  // namespace

std::optional<Evidence> baseline_of(const Bench& bench, const Scenario& scenario) {
  const StrategyInfo& strategy = bench.strategy;
  if (bench.distribution.world != 1 || bench.distribution.owners() != 1 ||
      strategy.parallelism == Parallelism::single || strategy.reduced_in || strategy.used_in ||
      bench.workload.optimizer().own)
    return {};
  for (const auto& info : strategy_registry().all()) {
    const bool fits = bench.devices[0].is_cpu() ? info.cpu : info.cuda;
    if (info.parallelism != Parallelism::single || !fits) continue;
    const auto params = same_products(info, strategy);
    const StrategyInfo single = with(info, params);
    const Bench baseline{single,
                         bench.workload,
                         {.parallelism = Parallelism::single,
                          .samples_per_rank = bench.distribution.samples_per_rank,
                          .samples = bench.distribution.samples},
                         0,
                         {},
                         {bench.devices[0]},
                         params,
                         bench.seed};
    return drive(baseline, scenario, {});
  }
  return {};
}

}  // namespace dpbench
