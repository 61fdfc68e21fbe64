// A group's segment (shared memory) as one rank maps it. The first rank creates the segment and publishes it in the
// rendezvous store; the other ranks map it.
#pragma once

#include <memory>
#include <vector>

#include "strategies/api/backend.h"
#include "strategies/comm/shm/segment.h"
#include "strategies/comm/shm/shared_memory.h"

namespace dpbench::shm {

// The kind of ranks: processes, or threads of one process that share one mapping of the group's memory.
enum class Home { processes, threads };

class MappedSegment {
 public:
  // numbers: global numbers of the group's ranks, for error messages.
  MappedSegment(const BackendSetup& setup, Home home, const SegmentMap& map, const std::vector<int>& numbers);

  const SegmentMap& map() const { return map_; }
  Segment& header() const { return *reinterpret_cast<Segment*>(base_); }
  Seat& seat(int rank) const { return reinterpret_cast<Seat*>(base_ + sizeof(Segment))[rank]; }
  char* slot(int rank, uint64_t turn) const {
    return base_ + map_.slots_begin() + (2 * static_cast<uint64_t>(rank) + turn % 2) * map_.slot_bytes;
  }
  Mailbox& mailbox(int from, int to) const {
    return reinterpret_cast<Mailbox*>(base_ + map_.mailboxes_begin())[from * map_.world + to];
  }
  // Closes the file descriptor of the shared memory. Call it when all ranks have mapped the segment.
  void close_file() { memory_ = {}; }

 private:
  void create(const BackendSetup& setup, Home home);
  void open(const BackendSetup& setup, Home home, const std::vector<int>& numbers);

  SegmentMap map_;
  std::shared_ptr<Mapping> mapping_;
  char* base_ = nullptr;
  // File descriptor of the shared memory; the rank that created it keeps it open until all ranks have mapped it.
  Descriptor memory_;
};

}  // namespace dpbench::shm
