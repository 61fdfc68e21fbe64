// How a rank waits for the operations, within its host and between hosts, that make up a collective across hosts: until
// the collective's deadline, and with the most specific reason if an operation fails or a host is late.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "strategies/comm/hosts/side_channel.h"
#include "strategies/comm/shm/host_group.h"

namespace dpbench {

// After a deadline, other hosts have this long to report why they are late.
inline constexpr std::chrono::milliseconds reason_grace{1000};

// The ranks of one host: first .. first + count - 1. The first is the host's leader.
struct Host {
  int first = 0, count = 1;
};

// All hosts of a group, as one rank sees them.
struct Hosts {
  int rank = 0;              // index of this rank in the process group
  std::vector<int> numbers;  // global numbers of the group's ranks, for error messages
  std::vector<Host> all = {};
  int own = 0;  // index of this rank's host in the list of hosts

  const Host& here() const { return all[own]; }
  bool leads() const { return rank == here().first; }
  int host_of(int of_rank) const;
  int global(int of_rank) const { return numbers.at(static_cast<size_t>(of_rank)); }
};

// A collective call of a group that spans hosts. Call 1 is the start of the group, in which its ranks join.
struct HostsCall {
  shm::Call call;
  uint64_t number = 0;  // sequence number of the call in the group
  std::chrono::milliseconds limit{};
  shm::Clock::time_point deadline = {};  // the time at which the whole call times out

  std::string name() const;
};

// Whom a rank waits for: the other ranks of its host, its host's leader (first rank), or the leaders of other hosts. A
// rank that waits for its leader must be patient, because the leader may itself wait for other hosts.
enum class WaitFor { own_host, leader, other_hosts };

// Only the thread of HostsBackend's work queue may call these functions, except abort() and leave().
class CallWaits {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Milliseconds = std::chrono::milliseconds;

  CallWaits(const Hosts& hosts, SideChannel& side_channel) : hosts_(hosts), side_channel_(side_channel) {}

  // Begins a call; its time limit starts now.
  void begin(const HostsCall& call);
  const HostsCall& current() const { return current_; }
  // Wait for one operation of the current collective, or for several operations between hosts. They throw if an
  // operation fails, if another host gives up, or if check_deadline() decides after the collective's deadline to stop
  // waiting.
  void await(const WorkPtr& work, WaitFor target);
  void await(const std::vector<WorkPtr>& parts);
  // Removes from the store the flags that this leader set in earlier calls. Call it when all ranks have reached the
  // current call: no rank reads these flags any more.
  void clear_old_flags();
  Milliseconds left() const;
  // Returns the timeout for the operations that make up a collective. It is longer than the collective's own timeout,
  // so that check_deadline() fails first and gives the reason.
  Milliseconds padded_timeout() const;

  void abort() { aborted_ = true; }
  // Tells the other hosts that this leader is leaving, so that they can explain a closed connection.
  void leave();

 private:
  bool done_within(c10d::Work& work, Milliseconds time, WaitFor target);
  void check_deadline(WaitFor target);
  [[noreturn]] void throw_aborted() const;
  [[noreturn]] void throw_failed_part(const std::string& error, WaitFor target);
  void set_flag(const std::string& key);
  template <class Is>
  std::string leaders_where(Is is);
  std::string late_hosts(bool begun);
  std::string gone_leaders();

  const Hosts& hosts_;
  SideChannel& side_channel_;
  HostsCall current_;
  // Keys of the flags that this leader set in the rendezvous store, in the current call and in an earlier one.
  std::vector<std::string> flags_, old_flags_;
  std::atomic<bool> aborted_{false};
};

}  // namespace dpbench
