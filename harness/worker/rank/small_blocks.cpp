#include "harness/worker/rank/small_blocks.h"

#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace dpbench {
namespace {

constexpr size_t unit = c10::gAlignment;  // what tensors are aligned to, and what their memory is rounded up to
constexpr size_t most_units = 64, most_kept = 16;  // of a size, by a thread: 2 MiB if all are

struct Block {
  Block* next;
};

struct Shelf {
  Block* first = nullptr;
  size_t count = 0;
};

// A thread's. After its end malloc is asked.
class Shelves {
 public:
  ~Shelves() {
    for (Shelf& shelf : shelves_)
      while (void* block = take(shelf)) std::free(block);
    ended() = true;
  }

  static void* get(size_t units) {
    void* const kept = ended() ? nullptr : take(mine().shelves_[units]);
    return kept ? kept : std::aligned_alloc(unit, units * unit);
  }

  // A block of glibc's has the size that it was asked for, or a part of a unit more.
  static void put(void* block) {
    const size_t units = malloc_usable_size(block) / unit;
    if (units == 0 || units > most_units || ended()) return std::free(block);
    Shelf& shelf = mine().shelves_[units];
    if (shelf.count == most_kept) return std::free(block);
    shelf = {new (block) Block{shelf.first}, shelf.count + 1};
  }

 private:
  static void* take(Shelf& shelf) {
    Block* const block = shelf.first;
    if (block) shelf = {block->next, shelf.count - 1};
    return block;
  }
  static Shelves& mine() {
    thread_local Shelves shelves;
    return shelves;
  }
  static bool& ended() {
    thread_local bool has = false;
    return has;
  }

  std::array<Shelf, most_units + 1> shelves_;
};

struct SmallBlocks : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0 || bytes > most_units * unit) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    void* const block = Shelves::get((bytes + unit - 1) / unit);
    if (!block) return c10::GetDefaultCPUAllocator()->allocate(bytes);  // says that there is no more
    return {block, block, &Shelves::put, c10::DeviceType::CPU};
  }
  // Torch's own memory is malloc's too: put() frees what is empty or large as torch does.
  c10::DeleterFnPtr raw_deleter() const override { return &Shelves::put; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void keep_small_blocks() {
  static SmallBlocks& blocks =
      *new SmallBlocks;  // never destroyed: whatever is freed at the very end still goes through it
  c10::SetCPUAllocator(&blocks);
}

}  // namespace dpbench
