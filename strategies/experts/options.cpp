#include "strategies/experts/options.h"

#include <utility>

#include "strategies/api/parts/flat.h"
#include "strategies/api/trained_parameters.h"
#include "strategies/tensor/tensors.h"

namespace dpbench::experts {

std::optional<std::vector<Traffic>> traffic(const TrafficQuery& query) {
  const int ranks = size_of(query.mesh, "ep");
  const ExpertPlan plan = query.model.expert_plan(ranks);
  // The strategy ep has no traffic formula in three cases: if experts drop tokens; under autocast, because each layer
  // chooses the dtype of its activations; with recomputation, because some activations are then exchanged a second
  // time.
  if (plan.rows == 0 || query.dtype == at::kBFloat16 || query.model.recompute() > 0) return std::nullopt;
  TensorPlan cuts;
  cuts.cuts = plan.cuts;
  const tensor::CutTensors cut(cuts, Axis{.name = "ep", .rank = place_on(query.mesh, "ep", query.rank), .size = ranks});
  // own: this rank's pieces of all trained parameters; shared: the trained parameters that are not cut among ranks.
  NamedTensors own, shared;
  for (const auto& [name, parameter] : trained_parameters(query.model)) {
    own.emplace_back(name, cut.piece(name, parameter));
    if (!cut.is_cut(name)) shared.emplace_back(name, parameter);
  }
  const int64_t buffers = query.bytes_of(named_buffers(query.model));
  std::vector<Traffic> all;
  if (size_of(query.mesh, "dp") > 1) all = {{"dp", "broadcast", buffers}, {"dp", "allreduce", flat_bytes(query, own)}};
  if (ranks == 1) return all;
  const auto size = static_cast<int64_t>(c10::elementSize(query.dtype));
  const auto word = static_cast<int64_t>(sizeof(int64_t));
  all.push_back({"ep", "broadcast", buffers});
  all.push_back({"ep", "allreduce", flat_bytes(query, shared) + (query.clips ? word : 0)});
  all.push_back({"ep", "allgather", query.accumulate * plan.layers * plan.experts * word});
  // Tokens travel to the experts and back, in the forward and in the backward pass: four all-to-alls. How many bytes
  // one rank sends depends on how the tokens are routed; the sum over all ranks does not.
  all.push_back({.axis = "ep",
                 .op = "alltoall",
                 .bytes = 4 * query.samples * plan.layers * plan.rows * plan.hidden * size,
                 .sum_only = true});
  return all;
}

}  // namespace dpbench::experts
