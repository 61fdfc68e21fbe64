// What lies in the memory that the ranks of a group share: a line of facts and a seat per rank, then the ranks' slots.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "strategies/comm/shm/kernels.h"

namespace dpbench::shm {

enum class Kind : uint8_t {
  none,
  join,
  allreduce,
  broadcast,
  allgather,
  reduce_scatter,
  reduce,
  gather,
  scatter,
  alltoall,
  barrier
};

// What a rank is about to do. The ranks' calls must agree in all of this before any data is touched.
struct Call {
  Kind kind = Kind::none;
  Reduction reduction = Reduction::sum;  // of the kinds that reduce
  int8_t dtype = 0;                      // an at::ScalarType
  int32_t root = -1;
  int64_t count = 0;    // elements: of the whole tensor, or of one rank's share
  uint64_t layout = 0;  // hash of the strides of a tensor that is not contiguous
  uint64_t tag = 0;     // of the caller: what step this is, for instance

  bool operator==(const Call&) const = default;
};

std::string describe(const Call& call);

// Where a rank's tensor lies, if its peers can reach it there.
struct Place {
  uint64_t block = 0;   // 0: nowhere in shared memory
  uint64_t oldest = 0;  // blocks of this rank with a lower number are gone
  uint64_t offset = 0, bytes = 0;
  char* address = nullptr;  // of the block in its owner, for ranks of the same process
  int32_t fd = -1;
};

struct Announcement {
  Call call;
  Place place;
};

struct alignas(64) Seat {
  std::atomic<uint32_t> phase{0};  // how often this rank has arrived; its peers sleep on it
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> left{0};  // its backend is destroyed
  std::atomic<pid_t> pid{0};      // 0 until it has joined
  Announcement said[2];           // by the parity of the sequence number
  cpu_set_t cores;                // on which it may run: its share of them, where somebody has pinned it
};

struct alignas(64) Segment {
  enum : uint32_t { sound, breaking, broken };
  std::atomic<uint32_t> state{sound};
  char reason[1024] = {};  // valid once broken
};

// The sizes of a segment for so many ranks: Segment, seats, then two slots per rank.
struct Layout {
  int world = 1;
  size_t slot_bytes = 0;

  size_t slots_begin() const { return (sizeof(Segment) + world * sizeof(Seat) + 4095) / 4096 * 4096; }
  size_t bytes() const { return slots_begin() + 2 * static_cast<size_t>(world) * slot_bytes; }
};

}  // namespace dpbench::shm
