#include "harness/worker/measure/memory_watch.h"

#include <algorithm>
#include <numeric>

namespace dpbench {
namespace {

constexpr size_t least_shared = 8192;  // bytes: smaller tensors of other allocators are left out, as those of torch's

}  // namespace

MemoryWatch::MemoryWatch(Strategy& strategy, int64_t before) {
  int64_t rest = tensor_bytes() - before;
  watch_tensors(this);
  {
    const KeptTensors kept = strategy.kept_tensors();
    rest -= keep(kept.parameters, Part::parameters);
    rest -= keep(kept.gradients, Part::gradients);
    rest -= keep(kept.state, Part::state);
  }
  const std::scoped_lock lock(mutex_);
  live_[static_cast<size_t>(Part::buffers)] += std::max<int64_t>(rest, 0);
  peak_ = live_;
  peak_bytes_ = std::reduce(live_.begin(), live_.end());
}

int64_t MemoryWatch::keep(const std::vector<at::Tensor>& tensors, Part part) {
  const std::scoped_lock lock(mutex_);
  int64_t all_counted = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.has_storage()) continue;
    const c10::Storage& storage = tensor.storage();
    if (const auto known = blocks_.find(storage.data()); known != blocks_.end()) {
      const bool is_copy = known->second.number > 0;  // allocated by kept_tensors()
      copies_ = copies_ || (is_copy && part != Part::gradients);
      continue;
    }
    const std::optional<int64_t> counted = counted_bytes(storage);
    const int64_t bytes = counted.value_or(storage.nbytes() < least_shared ? 0 : storage.nbytes());
    if (bytes == 0) continue;
    blocks_.emplace(storage.data(), Block{part, bytes, 0});
    live_[static_cast<size_t>(part)] += bytes;
    all_counted += counted.value_or(0);
  }
  return all_counted;
}

std::optional<MemoryParts> MemoryWatch::peak() const {
  const std::scoped_lock lock(mutex_);
  if (copies_) return std::nullopt;
  const auto bytes = [this](Part part) { return peak_[static_cast<size_t>(part)]; };
  return MemoryParts{.parameters = bytes(Part::parameters),
                     .gradients = bytes(Part::gradients),
                     .state = bytes(Part::state),
                     .activations = bytes(Part::activations),
                     .buffers = bytes(Part::buffers),
                     .temporary = bytes(Part::temporary)};
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
  if (const auto known = blocks_.find(block); known != blocks_.end()) {
    live_[static_cast<size_t>(known->second.part)] -= bytes;
    blocks_.erase(known);
  } else {
    // The block may be older than the strategy, such as one of a prepared batch, and then it was never added.
    int64_t& rest = live_[static_cast<size_t>(Part::buffers)];
    rest = std::max<int64_t>(rest - bytes, 0);
  }
}

void MemoryWatch::entered(Phase phase, Time) {
  const std::scoped_lock lock(mutex_);
  const bool communicates = phase == Phase::communication || phase == Phase::scatter || phase == Phase::waiting;
  part_ = phase == Phase::forward ? Part::activations : communicates ? Part::buffers : Part::temporary;
  if (phase == Phase::backward && !before_backward_) before_backward_ = allocations_;
  if (phase == Phase::optimizer) find_gradients();
}

void MemoryWatch::left(Time) {
  const std::scoped_lock lock(mutex_);
  part_ = Part::temporary;
  before_backward_.reset();
}

// Moves the blocks that are gradients to their part, in the sums of the peak too if they existed then.
void MemoryWatch::find_gradients() {
  if (!before_backward_) return;
  for (auto& [address, block] : blocks_) {
    if (block.number <= *before_backward_ || block.part == Part::activations || block.part == Part::gradients) continue;
    for (Bytes* sums : {&live_, &peak_}) {
      if (sums == &peak_ && block.number > peak_number_) continue;
      (*sums)[static_cast<size_t>(block.part)] -= block.bytes;
      (*sums)[static_cast<size_t>(Part::gradients)] += block.bytes;
    }
    block.part = Part::gradients;
  }
  before_backward_.reset();
}

}  // namespace dpbench
