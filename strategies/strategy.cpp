#include "strategies/strategy.h"

namespace dpbench {

Registry<StrategyInfo>& strategy_registry() {
  static Registry<StrategyInfo> registry;
  return registry;
}

RegisterStrategy::RegisterStrategy(StrategyInfo info) { strategy_registry().add(std::move(info)); }

}  // namespace dpbench
