// Collectives across hosts: shared memory within each, Gloo between one leader a host.
//
// Before any data is touched all ranks tell each other what they are about to do, as within one host. Whoever gives up
// says why in the store, so that every rank of every host ends with the same reason.
//
// A call ends within its time limit, counted from its turn on, and 3 s: whoever waits for another host gives up 1 s
// after the limit, in which that host may say what it lacks, and a rank that waits for its leader 2 or 3 s after it. A
// store that is slow may cost 2 s a question more.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/comm/hosts/side_channel.h"
#include "strategies/comm/shm/shm_backend.h"

namespace dpbench {

// The ranks first .. first + count - 1 live on one host; the first of them leads.
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
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void abort() override;
  void shutdown() override { queue_.drain(); }

 private:
  // One call under way, in the thread of the queue.
  struct Current {
    shm::Call call;
    uint64_t number = 0;  // joining was the first, as for the groups of one host
    Milliseconds limit{};
    shm::Clock::time_point deadline = {};  // of all its steps
  };
  enum class For { own_host, leader, other_hosts };  // whom a wait is for; leader: who waits for other hosts himself
  WorkPtr start(c10d::OpType type, const shm::Call& call, Milliseconds timeout, Tensors outputs,
                std::function<void()> steps);
  void join(const BackendSetup& setup, shm::Home home);
  void connect(const BackendSetup& setup);
  std::exception_ptr give_up(const std::string& reason);
  std::string called() const;
  int host_of(int rank) const;
  bool leads() const { return rank_ == hosts_[own_].first; }

  // Waits for a part of the current call, and throws what went wrong there or on another host.
  void await(const WorkPtr& work, For whom);
  void await(const std::vector<WorkPtr>& parts);
  bool done_within(c10d::Work& work, Milliseconds time, For whom);
  void give_up_in_time(For whom);
  [[noreturn]] void throw_aborted() const;
  [[noreturn]] void throw_why(const std::string& words, For whom);
  void note_wait(const std::string& key);
  void forget_waits();
  template <class Is>
  std::string leaders_who(Is is);
  std::string late_hosts(bool begun);
  std::string gone_leaders();

  // The steps of the current call.
  void require_agreement();
  void reduce_over(c10d::Backend& backend, const at::Tensor& flat, const c10d::ReduceOp& op);
  WorkPtr broadcast_over(c10d::Backend& backend, const at::Tensor& flat, int root) const;
  void sum_everywhere(const at::Tensor& flat, const c10d::ReduceOp& op);
  void send_everywhere(const at::Tensor& flat, int root);
  void gather_everywhere(const at::Tensor& whole, const at::Tensor& share, Milliseconds limit);
  void from_leader(const at::Tensor& flat);
  Milliseconds left() const;
  Milliseconds patience() const;

  Milliseconds timeout_;
  SideChannel side_channel_;
  std::vector<Host> hosts_;
  int own_ = 0;  // which of them is this one
  c10::intrusive_ptr<shm::ShmBackend> local_;
  c10::intrusive_ptr<c10d::Backend> leaders_;  // null on all but leaders, and after a failure
  std::exception_ptr failure_;
  Current current_;
  std::vector<std::string> noted_,
      noted_before_;  // in the store: that this leader waits in the current call, and in an earlier one
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> aborted_{false};
  WorkQueue queue_;  // last: its thread ends before what it uses
};

}  // namespace dpbench
