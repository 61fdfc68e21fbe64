// The collectives over a group's slots. Each begins without its peers (so a caller need not wait for them) and is
// finished by one thread at a time, in the order in which they began.
#pragma once

#include <vector>

#include "strategies/comm/shm/blocks.h"
#include "strategies/comm/shm/host_group.h"

namespace dpbench::shm {

// One rank's part in a collective: contiguous arrays of call.count elements each.
struct Job {
  Call call;
  size_t item = 1;                 // bytes of an element
  Reduce reduce = nullptr;         // of the kinds that reduce
  std::vector<const char*> sends;  // one for all, or one per rank; empty: nothing
  std::vector<char*> receives;     // one from each rank, null where nothing is wanted; empty: nothing
  char* reduced = nullptr;         // instead: the reduction of what the ranks sent to this one

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
  bool exchanged(const Job& job) const;

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
  std::vector<char*> placed_;  // every rank's tensor, as seen from here: null if it is private to the rank
  uint64_t turn_ = 0;          // the slots of two turns alternate
};

}  // namespace dpbench::shm
