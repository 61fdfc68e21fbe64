// Functions that turn the sharded reference strategy into wrong strategies.
#pragma once

#include <functional>

#include "tests/conformance/wrong_strategies/mutant.h"
#include "tests/conformance/wrong_strategies/sharded/sharded_reference.h"

namespace dpbench::wrong::sharded {

using Change = std::function<void(ShardedParts&)>;

// Returns a factory of the sharded reference strategy in which `change` has replaced some functions.
inline std::function<StrategyInfo()> made(const Change& change, const ShardedOptions& options = {}) {
  return [=] {
    ShardedParts parts = right_sharded_parts();
    change(parts);
    return sharded_strategy_of(parts, options);
  };
}

// Returns the mutant with a mesh of two replicas, each sharded over two ranks.
inline Mutant on_mesh(Mutant mutant) {
  mutant.world = 4;
  mutant.mesh = "dp=2,shard=2";
  return mutant;
}

}  // namespace dpbench::wrong::sharded
