// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473): each rank has several stages, and micro-batches run through
// them in groups. A group has as many micro-batches as there are ranks, and the last group also takes the remainder.
#include <algorithm>

#include "strategies/schedule/families/families.h"
#include "strategies/schedule/tape.h"

namespace dpbench::pipeline {
namespace {

struct Turn {
  int chunk, microbatch;
};

// Returns the sizes of the groups of micro-batches. If the number of micro-batches is not a multiple of the number of
// ranks, the last group takes the rest in addition. A group of its own, with fewer micro-batches than ranks, would
// stall the pipeline.
std::vector<int> group_sizes(const Request& request) {
  const int groups = std::max(1, request.microbatches / request.ranks);
  std::vector<int> sizes(groups, request.ranks);
  sizes.back() = request.microbatches - (groups - 1) * request.ranks;
  return sizes;
}

std::vector<Turn> turns(const Request& request, bool backward) {
  std::vector<Turn> order;
  int first = 0;
  for (const int size : group_sizes(request)) {
    for (int i = 0; i < request.chunks; ++i)
      for (int microbatch = first; microbatch < first + size; ++microbatch)
        order.push_back({backward ? request.chunks - 1 - i : i, microbatch});
    first += size;
  }
  return order;
}

}  // namespace

Schedule make_interleaved(const Request& request) {
  Schedule schedule{.microbatches = request.microbatches, .rank_of = looped_placement(request.ranks, request.chunks)};
  const std::vector<Turn> forward = turns(request, false), backward = turns(request, true);
  const int total = static_cast<int>(forward.size());
  for (int rank = 0; rank < request.ranks; ++rank) {
    Tape tape(request.microbatches);
    const auto add = [&](Kind kind, const Turn& turn) {
      tape.record(kind, turn.chunk * request.ranks + rank, turn.microbatch);
    };
    const int ahead = (request.chunks - 1) * group_sizes(request).back() + 2 * (request.ranks - 1 - rank) + 1;
    const int warm = std::min(ahead, total);
    for (int i = 0; i < warm; ++i) add(Kind::forward, forward[i]);
    for (int i = 0; i < total; ++i) {
      add(Kind::full_backward, backward[i]);
      if (warm + i < total) add(Kind::forward, forward[warm + i]);
    }
    schedule.ranks.push_back(tape.take());
    schedule.live_limits.push_back(warm);
  }
  return schedule;
}

}  // namespace dpbench::pipeline
