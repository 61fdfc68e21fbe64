#include "harness/worker/measure/memory_watch.h"

#include <numeric>

namespace dpbench {
namespace {

constexpr size_t least_shared = 8192;  // bytes; smaller tensors of torch's allocator do not count either

}  // namespace

void MemoryWatch::begin(Strategy& strategy) {
  {
    const std::scoped_lock lock(mutex_);
    first_ = allocations_;
  }
  {
    const KeptTensors kept = strategy.kept_tensors();
    keep(kept.parameters, Part::parameters);
    keep(kept.gradients, Part::gradients);
    keep(kept.state, Part::state);
  }
  const std::scoped_lock lock(mutex_);
  live_ = {};
  for (const auto& [address, block] : blocks_) live_[static_cast<size_t>(block.part)] += block.bytes;
  first_ = peak_number_ = allocations_;
  peak_ = live_;
  peak_bytes_ = std::reduce(live_.begin(), live_.end());
  part_ = Part::temporary;
}

void MemoryWatch::keep(const std::vector<at::Tensor>& tensors, Part part) {
  const std::scoped_lock lock(mutex_);
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_storage()) continue;
    const c10::Storage& storage = tensor.storage();
    if (const auto known = blocks_.find(storage.data()); known != blocks_.end()) {
      if (known->second.number > first_)  // allocated by kept_tensors()
        copies_ = copies_ || part != Part::gradients;
      else if (known->second.part == Part::buffers)
        known->second.part = part;
    } else if (!counted_bytes(storage) && storage.nbytes() >= least_shared) {  // memory that ranks share
      blocks_.emplace(storage.data(), Block{part, static_cast<int64_t>(storage.nbytes()), 0});
    }
  }
}

std::optional<MemoryParts> MemoryWatch::end(Strategy& strategy) {
  const auto [last, at_peak] = peak();  // before kept_tensors() allocates copies
  Bytes peak = at_peak;
  const std::vector<at::Tensor> gradients = strategy.kept_tensors().gradients;
  for (const at::Tensor& tensor : gradients) move_to_gradients(tensor, last, peak);
  if (copies_) return std::nullopt;
  const auto bytes = [&](Part part) { return peak[static_cast<size_t>(part)]; };
  return MemoryParts{.parameters = bytes(Part::parameters),
                     .gradients = bytes(Part::gradients),
                     .state = bytes(Part::state),
                     .activations = bytes(Part::activations),
                     .buffers = bytes(Part::buffers),
                     .temporary = bytes(Part::temporary)};
}

std::pair<int64_t, MemoryWatch::Bytes> MemoryWatch::peak() {
  const std::scoped_lock lock(mutex_);
  return {peak_number_, peak_};
}

void MemoryWatch::move_to_gradients(const at::Tensor& tensor, int64_t last, Bytes& peak) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  const std::scoped_lock lock(mutex_);
  const auto found = blocks_.find(tensor.storage().data());
  if (found == blocks_.end()) return;
  Block& block = found->second;
  if (block.number <= first_ || block.number > last || block.part == Part::gradients) return;
  peak[static_cast<size_t>(block.part)] -= block.bytes;
  peak[static_cast<size_t>(Part::gradients)] += block.bytes;
  block.part = Part::gradients;
}

void MemoryWatch::allocated(const void* block, int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  blocks_.insert_or_assign(block, Block{part_, bytes, ++allocations_});
  live_[static_cast<size_t>(part_)] += bytes;
  const int64_t all = std::reduce(live_.begin(), live_.end());
  if (all <= peak_bytes_) return;
  peak_bytes_ = all;
  peak_ = live_;
  peak_number_ = allocations_;
}

void MemoryWatch::freed(const void* block, int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto known = blocks_.find(block);
  if (known == blocks_.end()) return;  // older than the strategy
  live_[static_cast<size_t>(known->second.part)] -= bytes;
  blocks_.erase(known);
}

void MemoryWatch::entered(Phase phase, Time) {
  const std::scoped_lock lock(mutex_);
  const bool communicates = phase == Phase::communication || phase == Phase::scatter || phase == Phase::waiting;
  part_ = phase == Phase::forward ? Part::activations : communicates ? Part::buffers : Part::temporary;
}

void MemoryWatch::left(Time) {
  const std::scoped_lock lock(mutex_);
  part_ = Part::temporary;
}

}  // namespace dpbench
