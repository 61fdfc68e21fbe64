// Sample order, identical to torch.utils.data.DistributedSampler.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct SamplerOptions {
  int64_t samples = 0, world = 1, rank = 0;
  bool shuffle = true;
  uint64_t seed = 0;
  bool drop_last = false;  // false: pads with repeated samples to equal counts
};

// Returns a single process's order for one epoch: torch.randperm seeded with seed + epoch, or 0, 1, 2, ...
at::Tensor epoch_order(int64_t samples, uint64_t seed, int64_t epoch, bool shuffle);

// Rank r of n takes elements r, r + n, r + 2n, ... of the epoch's padded or truncated order.
class DistributedSampler {
 public:
  explicit DistributedSampler(const SamplerOptions& options);

  void set_epoch(int64_t epoch);                          // starts at epoch 0
  const at::Tensor& indices() const { return indices_; }  // int64, contiguous: a step's ids are a slice
  int64_t size() const { return indices_.numel(); }

 private:
  SamplerOptions options_;
  at::Tensor indices_;
};

}  // namespace dpbench
