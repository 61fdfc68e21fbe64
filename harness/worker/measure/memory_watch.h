// Divides the memory of a strategy's CPU tensors at the peak of a step into parts.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "harness/report/record/profile.h"
#include "harness/worker/rank/tensor_memory.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Make it before the strategy, call begin() before the watched step and end() after it, and let it listen to the step's
// phases. A tensor that exists at the beginning belongs to the part in which Strategy::kept_tensors() lists it, or to
// the buffers. A tensor that the step allocates is a gradient if kept_tensors() lists it as one after the step.
// Otherwise its part follows from the phase: activations in a forward pass, buffers in communication, else temporary.
class MemoryWatch : public TensorWatcher, public PhaseListener {
 public:
  MemoryWatch() { watch_tensors(this); }
  ~MemoryWatch() override { watch_tensors(nullptr); }
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  void begin(Strategy& strategy);  // collective
  // Returns the parts at the peak since begin(); nullopt if the strategy lists copies of its parameters or state.
  // Collective.
  std::optional<MemoryParts> end(Strategy& strategy);

  void allocated(const void* block, int64_t bytes) override;
  void freed(const void* block, int64_t bytes) override;
  void entered(Phase phase, Time) override;
  void left(Time) override;

 private:
  enum class Part : uint8_t { parameters, gradients, state, activations, buffers, temporary };
  using Bytes = std::array<int64_t, 6>;
  struct Block {
    Part part;
    int64_t bytes, number;  // number: of the allocation, from 1
  };

  void keep(const std::vector<at::Tensor>& tensors, Part part);
  std::pair<int64_t, Bytes> peak();
  // Moves the tensor's block from its part of `peak` to the gradients, if the step allocated it as number `last` or
  // earlier.
  void move_to_gradients(const at::Tensor& tensor, int64_t last, Bytes& peak);

  std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  Bytes live_{}, peak_{};
  int64_t allocations_ = 0, first_ = 0;       // first_: allocations before the watched step
  int64_t peak_bytes_ = 0, peak_number_ = 0;  // peak_number_: number of the allocation that reached the peak
  Part part_ = Part::buffers;                 // part of tensors that are allocated now
  bool copies_ = false;                       // true if the strategy lists copies
};

}  // namespace dpbench
