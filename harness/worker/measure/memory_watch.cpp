#include "harness/worker/measure/memory_watch.h"

namespace dpbench {
namespace {

// Returns the tensor's storage, or null if it has none.
const c10::Storage* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? &tensor.storage() : nullptr;
}

}  // namespace

void MemoryWatch::begin(Strategy& strategy) {
  {
    const std::scoped_lock lock(mutex_);
    first_ = allocations_;
  }
  {
    const KeptTensors kept = strategy.kept_tensors();
    keep(kept.parameters, &MemoryParts::parameters);
    keep(kept.buffers, &MemoryParts::parameters);
    keep(kept.gradients, &MemoryParts::gradients);
    keep(kept.state, &MemoryParts::state);
  }
  const std::scoped_lock lock(mutex_);
  live_ = {};
  for (const auto& [address, block] : blocks_) live_.*block.part += block.bytes;
  first_ = allocations_;
  peak_ = {live_, allocations_};
  part_ = &MemoryParts::temporary;
}

void MemoryWatch::keep(const NamedTensors& tensors, Part part) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [name, tensor] : tensors) {
    const c10::Storage* storage = storage_of(tensor);
    if (!storage) continue;
    if (const auto known = blocks_.find(storage->data()); known != blocks_.end()) {
      // kept_tensors() allocated this tensor, so it is a copy, and the part of the original tensor is unknown. end()
      // then returns nullopt. Gradients may be copies, because end() gets the list of gradients again.
      if (known->second.number > first_)
        copies_ = copies_ || part != &MemoryParts::gradients;
      else if (known->second.part == &MemoryParts::buffers)
        known->second.part = part;
      // This tensor is in memory that ranks share. The allocator of CPU tensors does not count it, so count it here.
    } else if (!counted_bytes(*storage) && storage->nbytes() >= least_counted) {
      blocks_.emplace(storage->data(), Block{part, static_cast<int64_t>(storage->nbytes()), 0});
    }
  }
}

std::optional<MemoryParts> MemoryWatch::end(Strategy& strategy) {
  Peak found = peak();  // the peak is read before kept_tensors() is called, which may allocate copies
  const NamedTensors gradients = strategy.kept_tensors().gradients;
  for (const auto& [name, tensor] : gradients) move_to_gradients(tensor, found);
  return copies_ ? std::nullopt : std::optional(found.parts);
}

MemoryWatch::Peak MemoryWatch::peak() {
  const std::scoped_lock lock(mutex_);
  return peak_;
}

void MemoryWatch::move_to_gradients(const at::Tensor& tensor, Peak& peak) {
  const c10::Storage* storage = storage_of(tensor);
  if (!storage) return;
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(storage->data());
  if (found == blocks_.end()) return;
  Block& block = found->second;
  if (block.number <= first_ || block.number > peak.number) return;
  peak.parts.*block.part -= block.bytes;
  block.part = &MemoryParts::gradients;
  peak.parts.*block.part += block.bytes;
}

void MemoryWatch::allocated(const void* block, int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  blocks_.insert_or_assign(block, Block{part_, bytes, ++allocations_});
  live_.*part_ += bytes;
  if (live_.total() > peak_.parts.total()) peak_ = {live_, allocations_};
}

void MemoryWatch::freed(const void* block, int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto known = blocks_.find(block);
  if (known == blocks_.end()) return;  // allocated before this object existed, so it is in no part
  live_.*known->second.part -= bytes;
  blocks_.erase(known);
}

void MemoryWatch::entered(Phase phase, Time) {
  const bool communicates = phase == Phase::communication || phase == Phase::scatter || phase == Phase::waiting;
  enter_part(phase == Phase::forward ? &MemoryParts::activations
             : communicates          ? &MemoryParts::buffers
                                     : &MemoryParts::temporary);
}

void MemoryWatch::left(Time) { enter_part(&MemoryParts::temporary); }

void MemoryWatch::enter_part(Part part) {
  const std::scoped_lock lock(mutex_);
  part_ = part;
}

}  // namespace dpbench
