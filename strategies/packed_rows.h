// The rows of a step in one piece of a device's memory that stays: filled by one copy, read by a recorded step.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include <c10/core/Event.h>

#include "workloads/workload.h"

namespace dpbench {

class PackedRows {
 public:
  // For micro-batches of these shapes; floating point is kept as `storage`.
  PackedRows(std::span<const Batch> like, at::Device device, at::ScalarType storage);

  // In the order of the current stream, so that nothing is overwritten that is still read. Waits for the device only
  // where it is several loads behind.
  void load(std::span<const Batch> micro);
  // Inputs, targets and ids, on the device.
  const std::vector<Batch>& micro() const { return micro_; }

 private:
  // The host's side, pinned: it may be filled again when it has been copied.
  struct Stage {
    at::Tensor host;
    std::optional<c10::Event> copied;
  };
  Stage& next_stage();

  at::Tensor memory_;
  std::vector<Stage> stages_;
  size_t loads_ = 0;
  std::vector<Batch> micro_;
};

}  // namespace dpbench
