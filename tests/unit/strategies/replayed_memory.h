// Memory as a CUDA graph has it: what runs under one of these gets at each run the memory that it got at the first, so
// that whoever still looks at a tensor of an earlier run sees it overwritten. Not for what asks for raw memory, as
// oneDNN does.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <c10/core/CPUAllocator.h>

namespace dpbench {

class ReplayedMemory {
 public:
  ReplayedMemory() { [[maybe_unused]] static const bool installed = (c10::SetCPUAllocator(&by_turns()), true); }

  // For this thread, while it lives.
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
  struct ByTurns : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
      if (!current()) return c10::GetDefaultCPUAllocator()->allocate(bytes);
      void* const place = current()->take(bytes);
      return {place, place, [](void*) {}, c10::DeviceType::CPU};  // kept until the graph goes
    }
    c10::DeleterFnPtr raw_deleter() const override { return c10::GetDefaultCPUAllocator()->raw_deleter(); }
    void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  };
  static ByTurns& by_turns() {
    static ByTurns allocator;
    return allocator;
  }
  static ReplayedMemory*& current() {
    static thread_local ReplayedMemory* memory = nullptr;
    return memory;
  }

  void* take(size_t bytes) {
    if (next_ == turns_.size()) turns_.emplace_back();
    auto& [size, block] = turns_[next_++];
    if (!block || size != bytes) {
      kept_.push_back(std::move(block));
      block = c10::GetDefaultCPUAllocator()->allocate(size = bytes);
    }
    return block.get();
  }

  std::vector<std::pair<size_t, c10::DataPtr>> turns_;
  std::vector<c10::DataPtr> kept_;  // of a turn that wanted another size: somebody may look at it
  size_t next_ = 0;
};

}  // namespace dpbench
