// Collectives across hosts: shared memory within a host, Gloo between the leaders (the first rank of each host).
//
// Before touching any data, all ranks of all hosts compare their calls. A rank that gives up writes its reason to the
// store, so every rank of every host fails with the same reason.
//
// A call's timeout starts when the call reaches the head of the queue, and the call ends at most 3 s after the timeout.
// A leader (first rank of a host) that waits for another host gives up 1 s after the timeout, so that the other host
// can report its missing ranks first. A rank that waits for its leader gives up 2 or 3 s after the timeout. A slow
// store can add 2 s per query.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/comm/hosts/call_waits.h"
#include "strategies/comm/hosts/pairs.h"
#include "strategies/comm/hosts/side_channel.h"
#include "strategies/comm/shm/shm_backend.h"

namespace dpbench {

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
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  // output_sizes, input_sizes: size, along dimension 0, of the piece of each rank; empty: all pieces have the same
  // size.
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void abort() override;
  void shutdown() override { queue_.drain(); }

 private:
  // A collective: the description that all ranks compare, and the steps that follow once all descriptions are equal.
  struct Part {
    shm::Call call;
    std::function<void()> steps;
  };
  Part allreduce_part(const at::Tensor& tensor, const c10d::ReduceOp& op);
  Part allgather_part(const at::Tensor& output, const at::Tensor& input);
  Part reduce_scatter_part(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op);

  WorkPtr start(c10d::OpType type, Part part, Milliseconds timeout, Tensors outputs);
  // Starts a coalesced collective, which consists of a collective for each tensor. Returns a work for all of them.
  WorkPtr start_coalesced(c10d::OpType type, std::vector<Part> parts, Milliseconds timeout, const Tensors& outputs);
  WorkPtr exchange(const shm::Call& call, const Tensors& outputs, const Tensors& inputs,
                   const c10d::AllToAllOptions& options);
  void join(const BackendSetup& setup, shm::Home home);
  void connect(const BackendSetup& setup);
  std::exception_ptr give_up(const std::string& reason);

  // The steps that collectives across hosts consist of. They run in the thread of queue_.
  void require_agreement();
  void reduce_over(c10d::Backend& backend, const at::Tensor& flat, const c10d::ReduceOp& op);
  WorkPtr broadcast_over(c10d::Backend& backend, const at::Tensor& flat, int root) const;
  void reduce_across_hosts(const at::Tensor& flat, const c10d::ReduceOp& op);
  void broadcast_across_hosts(const at::Tensor& flat, int root);
  void gather_across_hosts(const at::Tensor& whole, const at::Tensor& share, Milliseconds limit);
  void from_leader(const at::Tensor& flat);
  WorkPtr message(const at::Tensor& tensor, int peer, int tag, bool sends);

  Milliseconds timeout_;
  SideChannel side_channel_;
  Hosts hosts_;
  CallWaits waits_{hosts_, side_channel_};
  c10::intrusive_ptr<shm::ShmBackend> local_;
  // The backend that connects the leaders (first ranks of the hosts); null on other ranks, and after a failure.
  c10::intrusive_ptr<c10d::Backend> leaders_;
  Pairs pairs_;  // connections for messages to ranks of other hosts
  std::exception_ptr failure_;
  std::atomic<uint64_t> calls_{0};
  WorkQueue queue_;  // declared last, so that the queue's thread ends before the other members are destroyed
};

}  // namespace dpbench
