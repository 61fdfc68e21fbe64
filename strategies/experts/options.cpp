#include "strategies/experts/options.h"

#include <algorithm>
#include <iterator>

#include "strategies/api/parts/flat.h"

namespace dpbench::experts {

std::vector<Traffic> traffic(const TrafficQuery& query, const ExpertPlan& plan, const RankShare& share) {
  NamedTensors shared = share.parameters;  // parameters that are not cut over ep
  std::erase_if(shared,
                [&](const auto& one) { return std::ranges::count(plan.cuts, one.first, &TensorCut::name) > 0; });
  const auto size = static_cast<int64_t>(c10::elementSize(query.dtype));
  const auto word = static_cast<int64_t>(sizeof(int64_t));
  const int64_t layers = share.layers(plan.first_layer, plan.layers);
  const int64_t gathers = std::ssize(share.parts) * layers;
  return {{"ep", "allreduce", flat_bytes(query, shared), flat_buffers(query, shared)},
          {"ep", "allgather", gathers * plan.experts * word, gathers},
          // Tokens travel to the experts and back, in the forward and in the backward pass: four all-to-alls. The bytes
          // of one rank depend on the tokens that its experts get; their sum over ranks does not.
          {.axis = "ep",
           .op = "alltoall",
           .bytes = 4 * query.samples * layers * plan.rows * plan.hidden * size,
           .sum_only = true}};
}

}  // namespace dpbench::experts
