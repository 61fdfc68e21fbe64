// Collectives across hosts: shared memory within each, Gloo between one leader a host.
#pragma once

#include <atomic>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/comm/shm/backend.h"

namespace dpbench {

// The ranks first .. first + count - 1 live on one host; the first of them leads.
struct Host {
  int first = 0, count = 1;
};

class HostsBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  HostsBackend(const BackendSetup& setup, shm::Home home);
  ~HostsBackend() override;

  const std::string getBackendName() const override { return "shm"; }

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
  void abort() override { local_->abort(); }
  void shutdown() override { queue_.drain(); }

 private:
  WorkPtr start(c10d::OpType type, Tensors outputs, std::function<void()> steps);
  int host_of(int rank) const;
  bool leads() const { return rank_ == hosts_[own_].first; }

  // The steps, in the thread of the queue.
  void sum_everywhere(const at::Tensor& flat, const c10d::ReduceOp& op);
  void send_everywhere(const at::Tensor& flat, int root);
  void gather_everywhere(const at::Tensor& whole, const at::Tensor& share);
  void from_leader(const at::Tensor& flat);

  std::vector<Host> hosts_;
  int own_ = 0;  // which of them is this one
  c10::intrusive_ptr<shm::ShmBackend> local_;
  c10::intrusive_ptr<c10d::Backend> leaders_;  // null on all but leaders, and after a failure
  std::exception_ptr failure_;
  std::atomic<uint64_t> calls_{0};
  WorkQueue queue_;  // last: its thread ends before what it uses
};

}  // namespace dpbench
