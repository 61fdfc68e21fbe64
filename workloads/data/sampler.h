// Which samples come when: the indices that torch.utils.data.DistributedSampler gives, bit for bit.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct SamplerOptions {
  int64_t samples = 0, world = 1, rank = 0;
  bool shuffle = true;
  uint64_t seed = 0;
  bool drop_last = false;  // else padded by wrapping round, to equal counts
};

// The order of one epoch for a single process: torch.randperm seeded with seed + epoch, or 0, 1, 2, ...
at::Tensor epoch_order(int64_t samples, uint64_t seed, int64_t epoch, bool shuffle);

// Rank r of n takes r, r + n, r + 2n, ... of the epoch's padded or shortened order.
class DistributedSampler {
 public:
  explicit DistributedSampler(const SamplerOptions& options);

  void set_epoch(int64_t epoch);                          // epoch 0 until then
  const at::Tensor& indices() const { return indices_; }  // int64 and contiguous: the ids of a step are a slice
  int64_t size() const { return indices_.numel(); }

 private:
  SamplerOptions options_;
  at::Tensor indices_;
};

}  // namespace dpbench
