// Divides the memory of a strategy's CPU tensors at the peak of a step into parts.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "harness/report/record/profile.h"
#include "harness/worker/rank/tensor_memory.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// A tensor that exists when the watch begins belongs to the part in which Strategy::kept_tensors() lists it, or to the
// buffers. A tensor that is allocated later belongs to the part of its phase: activations in a forward pass, buffers in
// communication, else temporary. If it was allocated after the start of a backward pass and still exists when the
// optimizer begins, it is a gradient.
class MemoryWatch : public TensorWatcher, public PhaseListener {
 public:
  // before: bytes of the tensors that existed before the strategy. Collective.
  MemoryWatch(Strategy& strategy, int64_t before);
  ~MemoryWatch() override { watch_tensors(nullptr); }
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Returns the parts at the peak so far; nullopt if the strategy lists copies of its parameters or state.
  std::optional<MemoryParts> peak() const;

  void allocated(const void* block, int64_t bytes) override;
  void freed(const void* block, int64_t bytes) override;
  void entered(Phase phase, Time) override;
  void left(Time) override;

 private:
  enum class Part : uint8_t { parameters, gradients, state, activations, buffers, temporary };
  using Bytes = std::array<int64_t, 6>;
  struct Block {
    Part part;
    int64_t bytes, number;  // number: of the allocation, from 1; 0: it existed before
  };

  // Adds the tensors to a part. Returns the bytes of those that count.
  int64_t keep(const std::vector<at::Tensor>& tensors, Part part);
  void find_gradients();

  mutable std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  Bytes live_{}, peak_{};
  int64_t peak_bytes_ = 0, peak_number_ = 0;  // number of the allocation that reached the peak
  int64_t allocations_ = 0;
  std::optional<int64_t> before_backward_;  // allocations before the first backward pass of the step
  Part part_ = Part::temporary;             // of what is allocated now
  bool copies_ = false;
};

}  // namespace dpbench
