// Divides the memory of a strategy's CPU tensors at the peak of a step into parts.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "harness/report/record/profile.h"
#include "harness/worker/rank/tensor_memory.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Construct a MemoryWatch before the strategy, call begin() before the watched step and end() after it, and register it
// as the listener of the step's phases. A tensor that exists at begin() belongs to the part in which
// Strategy::kept_tensors() lists it; if it is not listed, to the buffers. A tensor that the step allocates is a
// gradient if kept_tensors() lists it as one after the step. Otherwise its part follows from the phase: activations in
// a forward pass, buffers in communication, else temporary.
class MemoryWatch : public TensorWatcher, public PhaseListener {
 public:
  MemoryWatch() { watch_tensors(this); }
  ~MemoryWatch() override { watch_tensors(nullptr); }
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  // Starts to sort the step's allocations into parts. Every rank must call it.
  void begin(Strategy& strategy);
  // Returns the parts at the peak since begin(); nullopt if the strategy lists copies of its parameters, buffers or
  // state. Every rank must call it.
  std::optional<MemoryParts> end(Strategy& strategy);

  void allocated(const void* block, int64_t bytes) override;
  void freed(const void* block, int64_t bytes) override;
  void entered(Phase phase, Time) override;
  void left(Time) override;

 private:
  using Part = int64_t MemoryParts::*;
  struct Block {
    Part part;
    int64_t bytes, number;  // number: the memory block's position among all allocations, from 1
  };
  struct Peak {
    MemoryParts parts;
    int64_t number = 0;  // number of the allocation that reached the peak
  };

  void keep(const NamedTensors& tensors, Part part);
  Peak peak();
  // Counts a tensor's memory at the peak as gradients, if the step had allocated the tensor before the peak.
  void move_to_gradients(const at::Tensor& tensor, Peak& peak);
  void enter_part(Part part);

  std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  MemoryParts live_;
  Peak peak_;
  int64_t allocations_ = 0, first_ = 0;  // first_: number of allocations before the watched step
  Part part_ = &MemoryParts::buffers;    // part to which new allocations belong
  bool copies_ = false;                  // true if the strategy lists copies of its tensors, not the tensors themselves
};

}  // namespace dpbench
