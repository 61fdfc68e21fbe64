// Shared-memory collectives over the slots (two buffers per rank) of a group. begin() does not wait for other ranks.
// finish() must be called by one thread at a time, in the order of the begin() calls.
#pragma once

#include <vector>

#include "strategies/comm/shm/blocks.h"
#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

// What one rank sends, receives and reduces in a collective. All arrays are contiguous and have call.count elements.
struct Job {
  Call call;
  size_t item = 1;          // bytes per array element
  Reduce reduce = nullptr;  // kernel that reduces arrays; null for collectives that do not reduce
  // Arrays to send: one for all ranks or one per rank; empty if this rank sends nothing.
  std::vector<const char*> sends;
  // One array per source rank, null to skip that rank; empty if this rank receives nothing.
  std::vector<char*> receives;
  char* reduced = nullptr;  // array for the result of collectives that reduce; they do not use `receives`

  size_t bytes() const { return call.count * item; }
};

class Collectives {
 public:
  explicit Collectives(HostGroup& group) : group_(group) {}

  void begin(const Job& job);
  void finish(const Job& job, Clock::time_point deadline);

 private:
  struct Chunk {
    size_t begin, count;
  };
  Chunk piece(size_t count, size_t item, int rank) const;
  bool uses_exchange(const Job& job) const;

  void publish(const Job& job, Chunk chunk);
  void consume(const Job& job, Chunk chunk);
  void exchange(const Job& job, Clock::time_point deadline);

  void copy_in(const Job& job, Chunk chunk);
  void reduce_piece(const Job& job, Chunk chunk);
  void copy_out(const Job& job, Chunk chunk);
  void reduce_in_pieces(const Job& job, Clock::time_point deadline);

  size_t chunk_elements(const Job& job) const;
  Chunk chunk_at(const Job& job, size_t begin, size_t elements) const;

  HostGroup& group_;
  PeerBlocks blocks_;
  Place place_;  // location of this rank's tensor in shared memory
  // Addresses of every rank's tensor in this process; an address is null if the tensor is not in shared memory.
  std::vector<char*> placed_;
  uint64_t turn_ = 0;  // counts chunks moved; its parity selects one of the two slots (shared buffers) of each rank
};

}  // namespace dpbench::shm
