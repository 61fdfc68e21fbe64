// Counts the bytes of CPU tensors.
#pragma once

#include <atomic>
#include <memory>

#include <c10/core/Allocator.h>

namespace dpbench {

// LibTorch's allocator for CPU tensors while an object of this class exists. Counts the bytes in use, by all threads.
class CountingAllocator : public c10::Allocator {
 public:
  CountingAllocator() { c10::SetAllocator(at::kCPU, this); }
  ~CountingAllocator() override { c10::SetAllocator(at::kCPU, inner_); }

  c10::DataPtr allocate(size_t size) override {
    auto block = std::make_unique<Block>(inner_->allocate(size), static_cast<int64_t>(size));
    void* data = block->data.get();
    return {data, block.release(), [](void* context) { delete static_cast<Block*>(context); }, at::kCPU};
  }
  void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }
  static int64_t in_use() { return in_use_; }

 private:
  struct Block {
    Block(c10::DataPtr its_data, int64_t its_size) : data(std::move(its_data)), size(its_size) { in_use_ += size; }
    ~Block() { in_use_ -= size; }
    c10::DataPtr data;
    int64_t size;
  };
  static inline std::atomic<int64_t> in_use_ = 0;
  c10::Allocator* inner_ = c10::GetAllocator(at::kCPU);
};

}  // namespace dpbench
