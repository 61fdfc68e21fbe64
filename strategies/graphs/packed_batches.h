// Keeps the samples of a step at fixed addresses in device memory, where a CUDA graph of the step reads them.
#pragma once

#include <span>
#include <vector>

#include "strategies/api/parts/batch_copies.h"
#include "workloads/api/workload.h"

namespace dpbench {

class PackedBatches {
 public:
  // Allocates device memory for micro-batches with the shapes of `like`. Floating-point tensors are stored in the dtype
  // `storage`.
  PackedBatches(std::span<const Batch> like, at::Device device, at::ScalarType storage);

  // Copies samples to the fixed addresses. The copy is enqueued on the current stream, after the steps that still read
  // the old samples. Samples in host memory are first transferred to the device on another stream, in advance.
  void load(std::span<const Batch> micro);
  // Returns the inputs, targets and ids on the device.
  const std::vector<Batch>& micro() const { return micro_; }

 private:
  BatchCopies copies_;
  at::Tensor memory_;
  std::vector<at::Tensor> places_;  // views of memory_ in the order inputs, targets, ids of each micro-batch
  std::vector<Batch> micro_;        // the views of places_, as one Batch per micro-batch
};

}  // namespace dpbench
