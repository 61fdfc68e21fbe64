// A segment, the memory shared by the ranks of a group: a header, one seat (status record) per rank, the ranks' slots
// (data buffers), then the mailboxes.
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

// A rank's description of its next collective call. The calls of all ranks must be equal before any data is touched.
struct Call {
  Kind kind = Kind::none;
  Reduction reduction = Reduction::sum;  // sum, max etc.; unused by collectives that do not reduce
  int8_t dtype = 0;                      // dtype of the tensor, an at::ScalarType
  int32_t root = -1;
  int64_t count = 0;     // number of elements: of the whole tensor, or of one rank's piece, depending on the collective
  uint64_t strides = 0;  // hash of the tensor's strides and sizes; 0 if it is contiguous

  bool operator==(const Call&) const = default;
};

std::string describe(const Call& call);

// Location of a rank's tensor in a block (an allocation in shared memory).
struct Place {
  uint64_t block = 0;  // number of the tensor's block; 0 if the tensor is not in shared memory
  // Lowest number of the existing blocks of this rank. Blocks with lower numbers have been freed, so other ranks unmap
  // them.
  uint64_t oldest = 0;
  uint64_t offset = 0, bytes = 0;
  // Address of the block in the process that allocated it. Other ranks use the address only if all ranks are threads of
  // one process.
  char* address = nullptr;
  int32_t fd = -1;
};

struct Announcement {
  Call call;
  Place place;
};

struct alignas(64) Seat {
  // Number of barriers at which this rank has arrived; a futex on which waiting ranks sleep.
  std::atomic<uint32_t> phase{0};
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> left{0};  // nonzero once the rank has left the group
  std::atomic<pid_t> pid{0};      // the rank's process id; 0 until it has joined
  Announcement announcements[2];  // the rank's last two announced calls, at the index sequence number modulo 2
  cpu_set_t cores;                // CPU affinity mask of the rank
  // Counts changes of the rank's mailboxes; a futex on which the rank sleeps.
  std::atomic<uint32_t> bell{0};
};

// Description of a message between two ranks, which must be equal at the sender and at the receiver.
struct Letter {
  int32_t tag = 0;
  int8_t dtype = 0;  // dtype of the tensor, an at::ScalarType
  int64_t count = 0;
  uint64_t bytes = 0;

  bool operator==(const Letter&) const = default;
};

// Carries the messages of one rank to another, chunk by chunk. The mailbox is empty if `written` and `read` are equal.
struct alignas(64) Mailbox {
  std::atomic<uint32_t> written{0}, read{0};
  // Nonzero once the receiver could not read the sender's memory. All further messages then travel as chunks.
  std::atomic<uint32_t> refused{0};
  Letter letter;
  // Address, in the sender's process, from which the receiver copies the whole message. If null, the mailbox holds the
  // next chunk of the message instead.
  const char* address = nullptr;
  alignas(64) char chunk[64 << 10];
};

struct alignas(64) Segment {
  enum : uint32_t { sound, breaking, broken };
  std::atomic<uint32_t> state{sound};
  char reason[1024] = {};  // why the group is broken; to be read only if `state` is `broken`
};

// Where the parts of a segment begin: the header, the seats, two slots per rank, then a mailbox for each ordered pair
// of ranks.
struct SegmentMap {
  int world = 1;
  size_t slot_bytes = 0;

  size_t slots_begin() const { return (sizeof(Segment) + world * sizeof(Seat) + 4095) / 4096 * 4096; }
  size_t mailboxes_begin() const { return slots_begin() + 2 * static_cast<size_t>(world) * slot_bytes; }
  size_t bytes() const { return mailboxes_begin() + static_cast<size_t>(world) * world * sizeof(Mailbox); }
};

}  // namespace dpbench::shm
