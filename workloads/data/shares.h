// Who gets which rows of a global batch: pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

namespace dpbench {

// The rows first, first + stride, ... of a batch.
struct Share {
  int64_t first = 0, rows = 0, stride = 1;
  bool operator==(const Share&) const = default;
};

// One share for each rank, the first ranks one row more where it does not come out even: neighbouring rows ...
std::vector<Share> blocks(int64_t rows, int64_t world);
// ... or rows rank, rank + world, ..., which is what DistributedSampler deals out.
std::vector<Share> strides(int64_t rows, int64_t world);

}  // namespace dpbench
