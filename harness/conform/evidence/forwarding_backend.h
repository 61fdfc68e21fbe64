// A base class for c10d backend wrappers: every collective is forwarded to the wrapped backend through one overridable
// function, around().
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace dpbench {

enum class CollectiveOp {
  broadcast,
  allreduce,
  reduce,
  allgather,
  gather,
  scatter,
  reduce_scatter,
  alltoall,
  send,
  recv,
  barrier
};
const char* name_of(CollectiveOp op);
// True for a send or receive, which takes place between two ranks.
inline bool is_point_to_point(CollectiveOp op) { return op == CollectiveOp::send || op == CollectiveOp::recv; }
// The reduction operation of a collective, e.g. SUM; UNUSED for collectives without one, such as broadcast.
using ReduceKind = c10d::ReduceOp::RedOpType;

class ForwardingBackend : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;

  explicit ForwardingBackend(c10::intrusive_ptr<c10d::Backend> inner);

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  // Tensor allocation is forwarded too, so that the gradient buckets of c10d's Reducer get the same memory as without
  // the wrapper.
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return inner_->supportsTensorAlloc(index); }
  at::Tensor allocateTensor(long count, at::TensorOptions options) override {
    return inner_->allocateTensor(count, options);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Lists& output, Tensors& input, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Lists& output, Tensors& input, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& output, Lists& input, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& output, Lists& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& output, Tensors& input, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& output, Tensors& input,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& output, Tensors& input,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void abort() override { inner_->abort(); }
  void shutdown() override { inner_->shutdown(); }

 protected:
  // A collective call that the wrapper received. run() forwards it to the wrapped backend and may be called once, at
  // any time and on any thread, because the call owns its arguments.
  struct Call {
    CollectiveOp op;
    ReduceKind reduction;
    Tensors input, output;
    std::function<WorkPtr()> run;
    int64_t root = -1;  // root rank of the collective; -1 if it has no root

    // Returns the bytes of this rank's input. For a recv, and for a scatter (where only the root has input), returns
    // those of its output.
    int64_t bytes() const;
  };
  virtual WorkPtr around(Call call) { return call.run(); }

  c10::intrusive_ptr<c10d::Backend> inner_;
};

using Wrap = std::function<c10::intrusive_ptr<c10d::Backend>(c10::intrusive_ptr<c10d::Backend>)>;
// Returns a new process group with the same ranks as `group`. Its backend is wrap(backend of `group`).
c10::intrusive_ptr<c10d::ProcessGroup> wrapped_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                     at::DeviceType device, const Wrap& wrap);

}  // namespace dpbench
