// The rows of a step in one piece of a device's memory that stays: filled by one copy, read by a recorded step.
#pragma once

#include <span>
#include <vector>

#include "strategies/parts/row_copies.h"
#include "workloads/api/workload.h"

namespace dpbench {

class PackedRows {
 public:
  // For micro-batches of these shapes; floating point is kept as `storage`.
  PackedRows(std::span<const Batch> like, at::Device device, at::ScalarType storage);

  // In the order of the current stream, so that nothing is overwritten that is still read. Rows of the host are on
  // their way to the device before that stream gets here; rows of the device are copied there.
  void load(std::span<const Batch> micro);
  // Inputs, targets and ids, on the device.
  const std::vector<Batch>& micro() const { return micro_; }

 private:
  RowCopies copies_;
  at::Tensor memory_;
  std::vector<at::Tensor> places_;  // in it, batch after batch
  std::vector<Batch> micro_;        // the same
};

}  // namespace dpbench
