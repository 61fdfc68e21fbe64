// Collectives across hosts: shared memory within a host, Gloo between the leaders (the first rank of each host).
//
// Before touching any data, all ranks compare their calls, as within one host. A rank that gives up writes its reason
// to the store, so every rank of every host fails with the same reason.
//
// A call ends at most 3 s after its timeout, which starts when the call reaches the head of the queue. A leader that
// waits for another host gives up 1 s after the timeout, so that the other host can report its missing ranks first. A
// rank that waits for its leader gives up 2 or 3 s after the timeout. A slow store can add 2 s per query.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/comm/hosts/pairs.h"
#include "strategies/comm/hosts/side_channel.h"
#include "strategies/comm/shm/shm_backend.h"

namespace dpbench {

// The ranks of one host: first .. first + count - 1. The first is the host's leader.
struct Host {
  int first = 0, count = 1;
};

class HostsBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Milliseconds = std::chrono::milliseconds;

  HostsBackend(const BackendSetup& setup, shm::Home home);
  ~HostsBackend() override;

  const std::string getBackendName() const override { return "shm"; }
  void setTimeout(Milliseconds timeout) override { timeout_ = timeout; }

  uint64_t getSequenceNumberForGroup() override { return calls_; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  // If sizes are given, the pieces may be uneven.
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void abort() override;
  void shutdown() override { queue_.drain(); }

 private:
  // The collective call in progress. Used by the work queue's thread only.
  struct Current {
    shm::Call call;
    uint64_t number = 0;  // sequence number of the collective call; joining the group is call 1, as within one host
    Milliseconds limit{};
    shm::Clock::time_point deadline = {};  // the time at which the whole collective call times out
  };
  // The ranks that a rank waits for: the ranks of its own host, its host's leader, or the leaders of other hosts. The
  // leader of a waiting rank may itself be waiting for other hosts.
  enum class WaitFor { own_host, leader, other_hosts };
  WorkPtr start(c10d::OpType type, const shm::Call& call, Milliseconds timeout, Tensors outputs,
                std::function<void()> steps);
  WorkPtr exchange(const shm::Call& call, const Tensors& outputs, const Tensors& inputs,
                   const c10d::AllToAllOptions& options);
  void join(const BackendSetup& setup, shm::Home home);
  void connect(const BackendSetup& setup);
  std::exception_ptr give_up(const std::string& reason);
  std::string call_name() const;
  int host_of(int rank) const;
  int global(int rank) const { return numbers_.at(static_cast<size_t>(rank)); }
  bool leads() const { return rank_ == hosts_[own_].first; }

  // Waits for one part of the current call. Throws if the part fails, or if another host gives up.
  void await(const WorkPtr& work, WaitFor target);
  void await(const std::vector<WorkPtr>& parts);
  bool done_within(c10d::Work& work, Milliseconds time, WaitFor target);
  void check_deadline(WaitFor target);
  [[noreturn]] void throw_aborted() const;
  [[noreturn]] void throw_failed_part(const std::string& error, WaitFor target);
  void flag_wait(const std::string& key);
  void clear_old_waits();
  template <class Is>
  std::string leaders_where(Is is);
  std::string late_hosts(bool begun);
  std::string gone_leaders();

  // The steps that make up the collectives. All steps run in the work queue's thread.
  void require_agreement();
  void reduce_over(c10d::Backend& backend, const at::Tensor& flat, const c10d::ReduceOp& op);
  WorkPtr broadcast_over(c10d::Backend& backend, const at::Tensor& flat, int root) const;
  void reduce_across_hosts(const at::Tensor& flat, const c10d::ReduceOp& op);
  void broadcast_across_hosts(const at::Tensor& flat, int root);
  void gather_across_hosts(const at::Tensor& whole, const at::Tensor& share, Milliseconds limit);
  void from_leader(const at::Tensor& flat);
  Milliseconds left() const;
  Milliseconds padded_timeout() const;
  WorkPtr message(const at::Tensor& tensor, int peer, int tag, bool sends);

  Milliseconds timeout_;
  SideChannel side_channel_;
  std::vector<int> numbers_;  // global numbers of the group's ranks, for error messages
  std::vector<Host> hosts_;
  int own_ = 0;  // this host's index in hosts_
  c10::intrusive_ptr<shm::ShmBackend> local_;
  // Backend that connects the leaders; null on other ranks, and after a failure.
  c10::intrusive_ptr<c10d::Backend> leaders_;
  Pairs pairs_;  // connections for messages to ranks of other hosts
  std::exception_ptr failure_;
  Current current_;
  // Flags that this leader set in the store, in the current and in an earlier call.
  std::vector<std::string> wait_flags_, old_wait_flags_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> aborted_{false};
  WorkQueue queue_;  // the queue is declared last, so that its thread ends before the other members are destroyed
};

}  // namespace dpbench
