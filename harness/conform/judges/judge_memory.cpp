// Checks that a rank's shards, the parameters in use and the all-gathers in flight of a strategy that frees parameters
// take no more memory than the strategy's formula allows.
#include <string>

#include "harness/conform/judges/judges.h"
#include "strategies/api/trained_parameters.h"

namespace dpbench {
namespace {

// Returns the likely mistake of a rank that uses more memory than the strategy's memory formula allows. trained: bytes
// of the trained parameters.
const char* mistake_in(const Evidence& evidence, int64_t trained) {
  if (evidence.stored_parameter_bytes >= trained)
    return "each rank keeps whole parameters: rows that are a view keep the memory of the whole tensor";
  return evidence.live_gather_bytes == 0
             ? "parameters are not freed after their use"
             : "parameters are not freed after their use, or units are gathered too far ahead";
}

}  // namespace

void judge_memory(const Trial& trial, Rows& rows) {
  const StrategyInfo& strategy = trial.bench.strategy;
  if (!strategy.live_parameters || trial.ranks[0].live_parameter_bytes + trial.ranks[0].live_gather_bytes == 0) return;
  const char compared[] =
      "memory of shards, parameters in use and gathers under way, at losses and collectives, with the formula";
  const auto model = first_model(trial.bench);
  const Params params = params_of(trial.bench, trial.scenario);
  const MeshShape mesh = trial.bench.distribution.mesh_of_ranks();
  const TrafficQuery query{.model = *model,
                           .dtype = trial.scenario.dtype,
                           .params = params,
                           .mesh = mesh,
                           .accumulate = trial.scenario.accumulate};
  const auto most = strategy.live_parameters(query);
  if (!most) return;
  const int64_t trained = query.bytes_of(trained_parameters(*model));
  for (const Evidence& evidence : trial.ranks) {
    const int64_t shards = evidence.stored_parameter_bytes, used = evidence.live_parameter_bytes,
                  gathers = evidence.live_gather_bytes, found = shards + used + gathers;
    rows.judged(
        "live-parameters", compared, found <= *most,
        [&] {
          return "expected at most " + std::to_string(*most) + " bytes, found " + std::to_string(found) + " (" +
                 std::to_string(shards) + " of shards, " + std::to_string(used) + " of parameters in use, " +
                 std::to_string(gathers) + " of gathers under way), rank " + std::to_string(evidence.rank) +
                 ", scenario " + trial.scenario.name;
        },
        [&] { return mistake_in(evidence, trained); });
  }
}

}  // namespace dpbench
