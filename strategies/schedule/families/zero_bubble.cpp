// Zero-bubble schedules ZB-H1 and ZB-H2 (Qi et al., arXiv 2401.10241): 1F1B with the backward pass split in two. Weight
// gradients lag behind and fill the idle time at the end.
#include <algorithm>

#include "strategies/schedule/families/families.h"
#include "strategies/schedule/tape.h"

namespace dpbench::pipeline {
namespace {

// Makes a schedule in which rank r runs `ahead(r)` forward passes before its first input gradient. A weight gradient
// runs `lag(r)` micro-batches after the input gradient of the same micro-batch.
template <class Ahead, class Lag>
Schedule split_backward(const Request& request, Ahead ahead, Lag lag) {
  Schedule schedule{.microbatches = request.microbatches, .rank_of = looped_placement(request.ranks, 1)};
  const int count = request.microbatches;
  for (int rank = 0; rank < request.ranks; ++rank) {
    Tape tape(count);
    const int warm = std::min(ahead(rank), count), late = std::min(lag(rank), count);
    for (int i = 0; i < warm; ++i) tape.forward(rank);
    for (int i = 0; i < count; ++i) {
      tape.input_gradient(rank);
      if (i >= late) tape.weight_gradient(rank);
      if (warm + i < count) tape.forward(rank);
    }
    for (int i = 0; i < late; ++i) tape.weight_gradient(rank);
    schedule.ranks.push_back(tape.take());
    schedule.live_limits.push_back(std::min(ahead(rank) + lag(rank), count));
  }
  return schedule;
}

}  // namespace

// ZB-H1: no rank has more live activations than the first rank of 1F1B.
Schedule make_zb_h1(const Request& request) {
  return split_backward(request, [&](int rank) { return request.ranks - rank; }, [](int rank) { return rank; });
}

// ZB-H2: about twice as many live activations as ZB-H1. In return, no rank is idle before its first input gradient.
Schedule make_zb_h2(const Request& request) {
  return split_backward(
      request, [&](int rank) { return 2 * (request.ranks - rank) - 1; }, [](int rank) { return 2 * rank; });
}

}  // namespace dpbench::pipeline
