// Our own c10d backend for the ranks of one host: collectives through shared memory.
//
// Reductions combine the ranks' data in rank order, so results have the same bits on every rank and in every run. A
// small collective runs in the calling thread if all ranks arrive within a short wait; others run in the backend's
// thread.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/comm/base/comm_work.h"
#include "strategies/comm/shm/jobs.h"
#include "strategies/comm/shm/messages.h"
#include "workloads/base/work_queue.h"

namespace dpbench::shm {

class ShmBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // first_rank: the number, in the setup's group, of the first rank of this host.
  ShmBackend(const BackendSetup& setup, Home home, int first_rank = 0);
  ~ShmBackend() override;

  const std::string getBackendName() const override { return home_ == Home::threads ? "threads" : "shm"; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return calls_; }

  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }
  at::Tensor allocateTensor(long count, at::TensorOptions options) override { return allocate_shared(count, options); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  // Sends the i-th piece of `input` to rank i. If sizes are given, the pieces may differ in size, and they are sent as
  // messages between pairs of ranks.
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  void abort() override;
  void shutdown() override { queue_.drain(); }
  // Breaks the process group for all ranks.
  void fail(const std::string& reason);

 private:
  struct Task {
    std::vector<Job> jobs;
    Tensors held;  // input tensors of the collective, kept alive until it ends
    std::chrono::milliseconds timeout;
    c10::intrusive_ptr<CommWork> work;
  };
  WorkPtr start(c10d::OpType type, std::vector<Job> jobs, Tensors outputs, Tensors inputs,
                std::chrono::milliseconds timeout);
  bool try_inline(Task& task);
  void run_task(Task& task, bool begun);
  WorkPtr alltoall_by_messages(const at::Tensor& output, const Tensors& to, const Tensors& from,
                               const c10d::AllToAllOptions& options);
  Job allgather_flat_job(const at::Tensor& output, const at::Tensor& input) const;
  Job reduce_scatter_flat_job(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op) const;

  Home home_;
  std::chrono::milliseconds timeout_;
  HostGroup group_;
  Collectives collectives_{group_};
  Messages messages_{group_};
  std::mutex starting_;
  // Output tensors of failed calls, kept alive because ranks that are late may still write to them.
  std::vector<Tensors> abandoned_;
  std::atomic<uint64_t> calls_{0};  // number of collectives started; atomic, because other threads read it
  WorkQueue queue_;  // declared last, so that the queue's thread ends before the other members are destroyed
};

}  // namespace dpbench::shm
