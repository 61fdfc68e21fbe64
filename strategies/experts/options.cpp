#include "strategies/experts/options.h"

#include <algorithm>
#include <iterator>

#include "strategies/api/parts/flat.h"

namespace dpbench::experts {

std::vector<Traffic> traffic(const TrafficQuery& query, const ExpertPlan& plan, const RankShare& share) {
  NamedTensors shared = share.parameters;  // parameters that are not cut over ep
  std::erase_if(shared,
                [&](const auto& one) { return std::ranges::count(plan.cuts, one.first, &TensorCut::name) > 0; });
  const auto word = static_cast<int64_t>(sizeof(int64_t));
  const int64_t forward = share.runs(plan.first_layer, plan.layers, Direction::forward),
                backward = share.runs(plan.first_layer, plan.layers, Direction::backward);
  const int64_t gathers = std::ssize(share.parts) * forward;
  const int64_t sent_and_returned = query.element_bytes() + query.element_bytes(plan.casts_results);
  return {{"ep", "allreduce", flat_bytes(query, shared), flat_buffers(query, shared)},
          {"ep", "allgather", gathers * plan.experts * word, gathers},
          // Tokens travel to the experts and back, in the forward and in the backward pass. The bytes of one rank
          // depend on the tokens that its experts get; their sum over ranks does not, unless experts drop tokens.
          {.axis = "ep",
           .op = "alltoall",
           .bytes = query.samples * (forward + backward) * plan.rows * plan.hidden * sent_and_returned,
           .sum_only = true,
           .unknown = plan.rows == 0}};
}

}  // namespace dpbench::experts
