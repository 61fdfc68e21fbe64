// Membership and synchronisation of the ranks of one host: joining, barriers, leaving and death of a rank. Knows
// nothing about collectives.
#pragma once

#include <poll.h>

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "strategies/comm/shm/mapped_segment.h"

namespace dpbench::shm {

using Clock = std::chrono::steady_clock;

class HostGroup {
 public:
  HostGroup(const BackendSetup& setup, Home home, size_t slot_bytes, int first_rank);
  ~HostGroup();

  int rank() const { return rank_; }
  int world() const { return segment_.map().world; }
  Home home() const { return home_; }
  size_t slot_bytes() const { return segment_.map().slot_bytes; }
  char* slot(int rank, uint64_t turn) const { return segment_.slot(rank, turn); }
  pid_t pid(int rank) const { return seat(rank).pid.load(); }
  bool crowded() const { return crowded_; }

  // Starts a call with the next sequence number and announces it to the other ranks. Throws the reason if the group is
  // broken.
  void announce(const Call& call, const Place& place = {});
  const Announcement& announced(int rank) const { return seat(rank).announcements[sequence_ % 2]; }
  uint64_t sequence() const { return sequence_; }

  // A barrier in two halves. arrive() publishes this rank's writes; after wait() the other ranks' writes are visible.
  void arrive();
  // Spins for a short time, until all ranks have arrived at the barrier. Returns false if some rank has not.
  bool wait_briefly();
  // Waits until all ranks have arrived at the barrier. Throws the same text on all ranks if a rank dies, leaves the
  // group or does not arrive in time. Does not compare the ranks' calls; require_agreement() does.
  void wait(Clock::time_point deadline);
  void meet(Clock::time_point deadline) { arrive(), wait(deadline); }

  // Throws unless all ranks announced the same call. Every rank must call it after a barrier.
  void require_agreement();
  // Marks the group as broken for all ranks and throws `reason`. If the group was broken already, throws the first
  // reason.
  [[noreturn]] void fail(const std::string& reason);
  // Throws the failure's reason if the group is broken. Also throws if this rank has left the group.
  void require_sound();
  // Returns "left the group" or "died"; an empty text if the rank is alive and in the group.
  std::string how_gone(int rank);
  std::string name_of(int rank) const;

  // Returns the mailbox of messages from one rank to another. A rank that changes the mailbox calls ring() to wake the
  // other rank.
  Mailbox& mailbox(int from, int to) const { return segment_.mailbox(from, to); }
  uint32_t bell() const { return seat(rank_).bell.load(); }
  void ring(int rank);
  // Sleeps until another rank raises this rank's bell (a counter) from the value `seen`, at most until the next check
  // for dead ranks.
  void wait_for_bell(uint32_t seen);

  // Leaves the group. Other ranks that wait for this rank fail, and so do this rank's own pending waits.
  void leave();

 private:
  [[noreturn]] void throw_reason();
  Seat& seat(int rank) const { return segment_.seat(rank); }
  bool arrived(int rank) const;
  bool all_arrived() const;
  void sleep_until_change(int rank);
  void check_peers(int missing, Clock::time_point deadline);
  std::vector<bool> dead_peers();
  void require_same_call(int rank);
  std::string call_name(int rank) const;
  std::string last_seen(int rank) const;
  bool has_core_per_rank() const;

  int rank_;
  std::vector<int> numbers_;  // global numbers of this group's ranks, for error messages
  Home home_;
  MappedSegment segment_;
  std::vector<Descriptor> pidfds_;  // one process file descriptor (pidfd) per other rank
  std::vector<pollfd> pollfds_;     // the process file descriptors as arguments of poll()
  std::vector<bool> died_;
  std::mutex watching_;  // guards pidfds_, pollfds_ and died_
  // True if there are more ranks than cores, so a rank should not spin: it would keep another rank from running. Also
  // true until the number of cores is known.
  bool crowded_ = true;
  uint32_t phase_ = 0;
  // Sequence number of the current call, and of the last call that was equal on all ranks.
  uint64_t sequence_ = 0, agreed_ = 0;
};

}  // namespace dpbench::shm
