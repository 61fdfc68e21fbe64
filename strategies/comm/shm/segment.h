// Layout of the memory shared by the ranks of a group: a header, one seat per rank, then the ranks' slots.
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

// Description of a rank's next call. All ranks' calls must be equal before any data is touched.
struct Call {
  Kind kind = Kind::none;
  Reduction reduction = Reduction::sum;  // only for kinds that reduce
  int8_t dtype = 0;                      // an at::ScalarType
  int32_t root = -1;
  int64_t count = 0;    // elements of the whole tensor, or of one rank's share
  uint64_t layout = 0;  // hash of the strides of a tensor that is not contiguous
  uint64_t tag = 0;     // set by the caller, for example to the step number

  bool operator==(const Call&) const = default;
};

std::string describe(const Call& call);

// Location of a rank's tensor in shared memory.
struct Place {
  uint64_t block = 0;   // 0: not in shared memory
  uint64_t oldest = 0;  // this rank has freed all blocks with lower numbers
  uint64_t offset = 0, bytes = 0;
  char* address = nullptr;  // of the block in its owner's address space, for ranks that are threads
  int32_t fd = -1;
};

struct Announcement {
  Call call;
  Place place;
};

struct alignas(64) Seat {
  std::atomic<uint32_t> phase{0};  // number of arrivals of this rank; peers sleep on it
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> left{0};  // its backend is destroyed
  std::atomic<pid_t> pid{0};      // 0 until it has joined
  Announcement announcements[2];  // indexed by the parity of the sequence number
  cpu_set_t cores;                // affinity mask of this rank
};

struct alignas(64) Segment {
  enum : uint32_t { sound, breaking, broken };
  std::atomic<uint32_t> state{sound};
  char reason[1024] = {};  // valid once broken
};

// Sizes of a segment: Segment, seats, then two slots per rank.
struct Layout {
  int world = 1;
  size_t slot_bytes = 0;

  size_t slots_begin() const { return (sizeof(Segment) + world * sizeof(Seat) + 4095) / 4096 * 4096; }
  size_t bytes() const { return slots_begin() + 2 * static_cast<size_t>(world) * slot_bytes; }
};

}  // namespace dpbench::shm
