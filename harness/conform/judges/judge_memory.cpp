// Checks that the parameters and all-gathers in flight of a strategy that frees parameters take no more memory than the
// strategy's formula allows.
#include <algorithm>
#include <string>

#include "harness/conform/judges/judges.h"

namespace dpbench {

void judge_memory(const Trial& trial, Rows& rows) {
  const StrategyInfo& strategy = trial.bench.strategy;
  if (!strategy.live_parameters || trial.ranks[0].live_parameter_bytes + trial.ranks[0].live_gather_bytes == 0) return;
  const char compared[] =
      "memory of the model's parameters and gathers under way, at losses and collectives, with the strategy's formula";
  const auto model = first_model(trial.bench);
  const Params params = params_of(trial.bench, trial.scenario);
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  const auto most = strategy.live_parameters({.model = *model,
                                              .dtype = trial.scenario.dtype,
                                              .params = params,
                                              .mesh = mesh,
                                              .accumulate = trial.scenario.accumulate});
  if (!most) return;
  for (const Evidence& evidence : trial.ranks) {
    const int64_t whole = evidence.live_parameter_bytes, gathers = evidence.live_gather_bytes;
    rows.judged(
        "live-parameters", compared, whole + gathers <= *most,
        [&] {
          return "expected at most " + std::to_string(*most) + " bytes, found " + std::to_string(whole + gathers) +
                 " (" + std::to_string(whole) + " of parameters, " + std::to_string(gathers) +
                 " of gathers under way), rank " + std::to_string(evidence.rank) + ", scenario " + trial.scenario.name;
        },
        [&] {
          return gathers == 0 ? "parameters are not freed after their use"
                              : "parameters are not freed after their use, or units are gathered too far ahead";
        });
  }
}

}  // namespace dpbench
