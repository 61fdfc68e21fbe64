// The ranks of one host around one segment: who is there, who has arrived, who has died. Knows nothing of collectives.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "strategies/api/backend.h"
#include "strategies/comm/shm/segment.h"
#include "strategies/comm/shm/shared_memory.h"

namespace dpbench::shm {

enum class Home { processes, threads };  // threads: all ranks live in this process, over one mapping

using Clock = std::chrono::steady_clock;

class HostGroup {
 public:
  HostGroup(const BackendSetup& setup, Home home, size_t slot_bytes, int first_rank);
  ~HostGroup();

  int rank() const { return rank_; }
  int world() const { return layout_.world; }
  Home home() const { return home_; }
  size_t slot_bytes() const { return layout_.slot_bytes; }
  char* slot(int rank, uint64_t turn) const;
  pid_t pid(int rank) const { return seat(rank).pid.load(); }
  bool crowded() const { return crowded_; }

  // A call begins: says what it is. Its sequence number is the next. Throws the reason once the group is broken.
  void announce(const Call& call, const Place& place = {});
  const Announcement& said(int rank) const { return seat(rank).said[sequence_ % 2]; }
  uint64_t sequence() const { return sequence_; }

  // The ranks meet: arrive() makes what this rank wrote visible to its peers, and after wait() theirs is visible here.
  void arrive();
  bool wait_briefly();  // false: somebody has yet to come
  // Throws what went wrong, the same text on all ranks: somebody died, left, came late, or said something else.
  void wait(Clock::time_point deadline);
  void meet(Clock::time_point deadline) { arrive(), wait(deadline); }

  // Throws unless all ranks said the same; to be called by each of them after they met.
  void require_agreement();
  // Breaks the group for everyone, unless it is broken already, and throws the first reason.
  [[noreturn]] void fail(const std::string& reason);
  // This rank is gone: peers that wait for it fail, and so does whatever this rank still waits for.
  void leave();

 private:
  [[noreturn]] void raise();
  Seat& seat(int rank) const;
  Segment& segment() const { return *reinterpret_cast<Segment*>(base_); }
  bool arrived(int rank) const;
  bool all_arrived() const;
  void sleep_until_change(int rank);
  void look_for_trouble(int missing, Clock::time_point deadline);
  void watch_peers();
  void compare(int rank);
  std::string called(int rank) const;
  std::string last_seen(int rank) const;
  std::string named(int rank) const;
  void open_segment(const BackendSetup& setup);
  bool cores_for_all() const;

  int rank_, first_rank_;  // first_rank_: the number by which others know rank 0
  Home home_;
  Layout layout_;
  std::shared_ptr<Mapping> mapping_;
  char* base_ = nullptr;
  Descriptor memory_;                // of the rank that made it, until all have joined
  std::vector<Descriptor> endings_;  // a pidfd per peer process,
  std::vector<pollfd> watched_;      // and all of them together
  std::vector<bool> died_;
  bool crowded_ = true;  // more ranks than cores, until it is known: spinning would keep a peer from running
  uint32_t phase_ = 0;
  uint64_t sequence_ = 0, agreed_ = 0;  // the call this rank is in, and the last one that all agreed on
};

}  // namespace dpbench::shm
