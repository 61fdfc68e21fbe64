// Shared-memory collectives over the slots (two buffers per rank) of a group. begin() does not wait for other ranks.
// finish() must be called by one thread at a time, in the order of the begin() calls.
#pragma once

#include <vector>

#include "strategies/comm/shm/blocks.h"
#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

// The data that one rank sends, receives and reduces in a collective. All arrays are contiguous and have call.count
// elements.
struct Job {
  Call call;
  size_t item = 1;          // bytes per array element
  Reduce reduce = nullptr;  // kernel that reduces arrays; null for collectives that do not reduce
  // The arrays that this rank sends: one for all ranks or one per rank. Empty if the rank sends nothing.
  std::vector<const char*> sends;
  // The arrays that this rank receives, by source rank; null for a source to skip. Empty if the rank receives nothing.
  std::vector<char*> receives;
  char* reduced = nullptr;  // the array for the result, if the collective reduces; `receives` is then empty

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
  // The address, in this process, of each rank's tensor; null if that tensor is not in shared memory.
  std::vector<char*> placed_;
  // Number of chunks moved so far. Chunks alternate between a rank's two slots (shared buffers).
  uint64_t turn_ = 0;
};

}  // namespace dpbench::shm
