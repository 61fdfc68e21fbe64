#include "strategies/graphs/replayed_rows.h"

#include <stdexcept>

namespace dpbench {

void ReplayedRows::require_unambiguous(int64_t step, std::span<const Batch> micro) {
  int64_t rows = 0;
  for (const Batch& batch : micro) rows += batch.rows();
  if (!counts_.insert(rows).second) return;
  for (const int64_t other : {rows - 1, rows + 1})
    if (counts_.contains(other))
      throw std::runtime_error(owner_ + ".graph=on: this rank has " + std::to_string(rows) + " samples in step " +
                               std::to_string(step) + " and had " + std::to_string(other) +
                               " before. Another rank may replay a step that this rank records. " +
                               "Use a --batch that leaves a different remainder, or " + owner_ + ".graph=off.");
}

}  // namespace dpbench
