// A GPU's tensors over a backend for the host's memory, by way of pinned copies: for ranks that share a GPU, which NCCL
// refuses.
//
// The caller waits until its own GPU has brought the inputs, never for its peers; the copy back is made, and waited
// for, by the thread that finished the collective. So whoever waits for the work finds the outputs there, whatever
// stream it uses.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace dpbench {

class StagedBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // Tensors of this device's type are staged; others are left to `host` as they are. Its works must have futures.
  StagedBackend(c10::intrusive_ptr<c10d::Backend> host, at::Device device);

  const std::string getBackendName() const override { return host_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { host_->setTimeout(timeout); }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return calls_; }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return host_->barrier(options); }

  void abort() override { host_->abort(); }
  void shutdown() override { host_->shutdown(); }

 private:
  // The collective between tensors of the host: outputs, then inputs.
  using OnHost = std::function<WorkPtr(Tensors& outputs, Tensors& inputs)>;
  WorkPtr in_place(c10d::OpType type, const Tensors& tensors, const OnHost& start);
  WorkPtr between(c10d::OpType type, const Tensors& outputs, const Tensors& inputs, const OnHost& start);
  WorkPtr brought_back(c10d::OpType type, const Tensors& outputs, const Tensors& from, const WorkPtr& work);
  bool is_staged(const at::Tensor& tensor) const { return tensor.device().type() == device_.type(); }
  at::Tensor place_for(const at::Tensor& tensor) const;
  Tensors fetched(const Tensors& tensors) const;

  c10::intrusive_ptr<c10d::Backend> host_;
  at::Device device_;
  std::atomic<uint64_t> calls_{0};
};

}  // namespace dpbench
