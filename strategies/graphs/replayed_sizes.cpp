#include "strategies/graphs/replayed_sizes.h"

#include <stdexcept>

namespace dpbench {

void ReplayedSizes::require_unambiguous(int64_t step, std::span<const Batch> micro) {
  int64_t samples = 0;
  for (const Batch& batch : micro) samples += batch.samples();
  if (!counts_.insert(samples).second) return;
  for (const int64_t other : {samples - 1, samples + 1})
    if (counts_.contains(other))
      throw std::runtime_error(owner_ + ".graph=on: this rank has " + std::to_string(samples) + " samples in step " +
                               std::to_string(step) + " and had " + std::to_string(other) +
                               " before. Another rank may replay a step that this rank records. " +
                               "Use a --batch that leaves a different remainder, or " + owner_ + ".graph=off.");
}

}  // namespace dpbench
