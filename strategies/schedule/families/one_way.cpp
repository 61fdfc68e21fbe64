// GPipe (Huang et al., arXiv 1811.06965) and 1F1B (Narayanan et al., arXiv 1806.03377): one stage for each rank, and
// full backward passes.
#include <algorithm>

#include "strategies/schedule/families/families.h"
#include "strategies/schedule/tape.h"

namespace dpbench::pipeline {
namespace {

// Makes a schedule with one stage per rank. Each rank runs `ahead` forward passes before its first backward pass, and
// then backward and forward passes in turn.
Schedule one_way(const Request& request, int (*ahead)(const Request&, int rank)) {
  Schedule schedule{.microbatches = request.microbatches, .rank_of = looped_placement(request.ranks, 1)};
  const int count = request.microbatches;
  for (int rank = 0; rank < request.ranks; ++rank) {
    Tape tape(count);
    const int warm = std::min(ahead(request, rank), count);
    for (int i = 0; i < warm; ++i) tape.forward(rank);
    for (int i = 0; i < count; ++i) {
      tape.backward(rank);
      if (warm + i < count) tape.forward(rank);
    }
    schedule.ranks.push_back(tape.take());
    schedule.live_limits.push_back(warm);
  }
  return schedule;
}

}  // namespace

Schedule make_gpipe(const Request& request) {
  return one_way(request, [](const Request& all, int) { return all.microbatches; });
}

Schedule make_1f1b(const Request& request) {
  return one_way(request, [](const Request& all, int rank) { return all.ranks - rank; });
}

}  // namespace dpbench::pipeline
