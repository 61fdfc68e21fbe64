// The order in which samples are used, identical to torch.utils.data.DistributedSampler.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpbench {

struct SamplerOptions {
  int64_t samples = 0, world = 1, rank = 0;
  bool shuffle = true;
  uint64_t seed = 0;
  // How all ranks get equal counts; true: surplus samples are dropped; false: samples are repeated.
  bool drop_last = false;
};

// Returns the order of samples of one epoch for a single process: torch.randperm seeded with seed + epoch, or 0, 1, 2,
// ... without shuffling.
at::Tensor epoch_order(int64_t samples, uint64_t seed, int64_t epoch, bool shuffle);

// Assigns samples to ranks: rank r of n takes elements r, r + n, r + 2n, ... of the epoch's padded or truncated order.
class DistributedSampler {
 public:
  explicit DistributedSampler(const SamplerOptions& options);

  void set_epoch(int64_t epoch);  // Sets the epoch, which determines the order. The first epoch is 0.
  // This rank's sample ids as a contiguous int64 tensor; a step uses a slice of it.
  const at::Tensor& indices() const { return indices_; }
  int64_t size() const { return indices_.numel(); }

 private:
  SamplerOptions options_;
  at::Tensor indices_;
};

}  // namespace dpbench
