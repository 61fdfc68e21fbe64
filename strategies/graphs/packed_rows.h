// The samples of a step at a fixed device address: filled by one copy, read by a recorded step.
#pragma once

#include <span>
#include <vector>

#include "strategies/parts/row_copies.h"
#include "workloads/api/workload.h"

namespace dpbench {

class PackedRows {
 public:
  // Allocates memory for micro-batches of these shapes. Floating-point tensors are stored as `storage`.
  PackedRows(std::span<const Batch> like, at::Device device, at::ScalarType storage);

  // Copies in stream order, so that samples still being read are not overwritten. The transfer of host samples starts
  // before the current stream reaches this point; device samples are copied on the device.
  void load(std::span<const Batch> micro);
  // Inputs, targets and ids, on the device.
  const std::vector<Batch>& micro() const { return micro_; }

 private:
  RowCopies copies_;
  at::Tensor memory_;
  std::vector<at::Tensor> places_;  // views of memory_, batch by batch
  std::vector<Batch> micro_;        // the same views
};

}  // namespace dpbench
