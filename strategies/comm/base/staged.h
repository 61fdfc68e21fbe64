// Runs collectives on GPU tensors over a CPU backend, through copies in pinned host memory. Needed for ranks that share
// a GPU, which NCCL refuses. The caller waits until its inputs are copied to the host, but never for other ranks. The
// thread that completes the collective copies the outputs back and waits for that copy, so the outputs are ready on
// every stream when the work is done. In sends, receives and alltoall_base(), wait() copies the received data back, in
// the calling thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace dpbench {

using StartOnHost = std::function<c10::intrusive_ptr<c10d::Work>(std::vector<at::Tensor>& host)>;

// Send a tensor, receive a tensor, or exchange two tensors in an all-to-all, through copies in host memory. start: a
// function that starts the operation on the host copies; for an all-to-all it gets the output's copy, then the input's.
// The returned Work has no future, because only its wait() copies received data back to the device.
c10::intrusive_ptr<c10d::Work> send_through_host(const at::Tensor& tensor, const StartOnHost& start);
c10::intrusive_ptr<c10d::Work> receive_through_host(const at::Tensor& tensor, const StartOnHost& start);
c10::intrusive_ptr<c10d::Work> exchange_through_host(const at::Tensor& output, const at::Tensor& input,
                                                     const StartOnHost& start);

class StagedBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // Tensors on devices of the type of `device` are copied through the host; other tensors go to the backend `host`
  // unchanged. The c10d::Work objects of collectives that `host` returns must have futures.
  StagedBackend(c10::intrusive_ptr<c10d::Backend> host, at::Device device);

  const std::string getBackendName() const override { return host_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { host_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return host_->getSequenceNumberForGroup(); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return host_->barrier(options); }

  void abort() override { host_->abort(); }
  void shutdown() override { host_->shutdown(); }

 private:
  // A function that starts the collective on host copies of the tensors; it gets these copies as arguments.
  using OnHost = std::function<WorkPtr(Tensors& outputs, Tensors& inputs)>;
  WorkPtr in_place(c10d::OpType type, const Tensors& tensors, const OnHost& start);
  WorkPtr out_of_place(c10d::OpType type, const Tensors& outputs, const Tensors& inputs, const OnHost& start);
  WorkPtr copy_back_after(c10d::OpType type, const Tensors& outputs, const Tensors& from, const WorkPtr& work);
  bool is_staged(const at::Tensor& tensor) const { return tensor.device().type() == device_.type(); }

  c10::intrusive_ptr<c10d::Backend> host_;
  at::Device device_;
};

}  // namespace dpbench
