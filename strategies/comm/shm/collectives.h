// The collectives over a group's slots. begin() does not wait for peers. finish() must be called by one thread at a
// time, in the order of the begin() calls.
#pragma once

#include <vector>

#include "strategies/comm/shm/blocks.h"
#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

// One rank's part in a collective: contiguous arrays of call.count elements each.
struct Job {
  Call call;
  size_t item = 1;                 // bytes of an element
  Reduce reduce = nullptr;         // only for kinds that reduce
  std::vector<const char*> sends;  // one for all ranks or one per rank; empty: sends nothing
  std::vector<char*> receives;     // one per source rank, null to skip it; empty: receives nothing
  char* reduced = nullptr;         // used instead of receives by kinds that reduce

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
  Place place_;                // of this rank's tensor
  std::vector<char*> placed_;  // every rank's tensor as mapped here; null if it is not in shared memory
  uint64_t turn_ = 0;          // selects one of the two slots of each rank
};

}  // namespace dpbench::shm
