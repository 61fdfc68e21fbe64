// CPU memory that behaves like the memory of a CUDA graph: every run gets the addresses of the first run, so tensors of
// earlier runs are overwritten. Raw allocations, such as those of oneDNN, are not covered.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <c10/core/CPUAllocator.h>

namespace dpbench {

class ReplayedMemory {
 public:
  ReplayedMemory() { [[maybe_unused]] static const bool installed = (c10::SetCPUAllocator(&replay_allocator()), true); }

  // While an object of the class Run exists, this thread allocates from the given ReplayedMemory, starting again at its
  // first block.
  class Run {
   public:
    explicit Run(ReplayedMemory& memory) : before_(std::exchange(current(), &memory)) { memory.next_ = 0; }
    ~Run() { current() = before_; }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    ReplayedMemory* before_;
  };

 private:
  struct ReplayAllocator : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
      if (!current()) return c10::GetDefaultCPUAllocator()->allocate(bytes);
      void* const place = current()->take(bytes);
      // The blocks are freed together with the recorded graph.
      return {place, place, [](void*) {}, c10::DeviceType::CPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return c10::GetDefaultCPUAllocator()->raw_deleter(); }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  };
  static ReplayAllocator& replay_allocator() {
    static ReplayAllocator allocator;
    return allocator;
  }
  static ReplayedMemory*& current() {
    static thread_local ReplayedMemory* memory = nullptr;
    return memory;
  }

  void* take(size_t bytes) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    auto& [size, block] = blocks_[next_++];
    if (!block || size != bytes) {
      retired_.push_back(std::move(block));
      block = c10::GetDefaultCPUAllocator()->allocate(size = bytes);
    }
    return block.get();
  }

  std::vector<std::pair<size_t, c10::DataPtr>> blocks_;
  // Blocks that were replaced because their size changed; tensors may still refer to them.
  std::vector<c10::DataPtr> retired_;
  size_t next_ = 0;
};

}  // namespace dpbench
