// Counts the bytes of CPU tensors.
#pragma once

#include <atomic>
#include <memory>

#include <c10/core/Allocator.h>

namespace dpbench {

// LibTorch's allocator for CPU tensors while an object of this class exists. Counts the bytes in use, by all threads.
class CountingAllocator {
 public:
  CountingAllocator() { c10::SetAllocator(at::kCPU, &counting()); }
  ~CountingAllocator() { c10::SetAllocator(at::kCPU, counting().inner); }
  CountingAllocator(const CountingAllocator&) = delete;
  CountingAllocator& operator=(const CountingAllocator&) = delete;

  static int64_t in_use() { return bytes_; }

 private:
  struct Counting : public c10::Allocator {
    c10::DataPtr allocate(size_t size) override {
      auto block = std::make_unique<Block>(inner->allocate(size), static_cast<int64_t>(size));
      void* data = block->data.get();
      return {data, block.release(), [](void* context) { delete static_cast<Block*>(context); }, at::kCPU};
    }
    void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }

    c10::Allocator* inner = c10::GetAllocator(at::kCPU);
  };
  struct Block {
    Block(c10::DataPtr its_data, int64_t its_size) : data(std::move(its_data)), size(its_size) { bytes_ += size; }
    ~Block() { bytes_ -= size; }
    c10::DataPtr data;
    int64_t size;
  };
  // Never destroyed, because tensors that outlive a test keep a pointer to it.
  static Counting& counting() {
    static auto* const one = new Counting;
    return *one;
  }

  static inline std::atomic<int64_t> bytes_ = 0;
};

}  // namespace dpbench
