// A class template that derives from a c10d backend and logs the collectives called on it, except coalesced all-gathers
// and reduce-scatters. The log serves to find ranks that call different collectives, which c10d's backends do not
// detect.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/api/backend.h"

namespace dpbench {

// A collective's name, reduction and root, which must be equal on all ranks. root is -1 if the collective has none.
struct NamedCall {
  const char* op;
  const char* reduction = "";
  int64_t root = -1;
};
// Returns a description of a call, such as "allreduce of 12 Float (sum)". The shm backend describes its calls
// similarly.
std::string describe(const NamedCall& call, const std::vector<at::Tensor>& tensors);
// Returns the tensors to pass to describe() if all ranks must get the same description: the first list in `lists`,
// which has one tensor per rank. Returns `own`, this rank's tensors, if `lists` is empty. The sizes of `own` may differ
// between ranks.
const std::vector<at::Tensor>& all_pieces(const std::vector<std::vector<at::Tensor>>& lists,
                                          const std::vector<at::Tensor>& own);

template <class Inner>
class LoggingBackend : public Inner {
 public:
  using Inner::Inner;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;

  // Sets the callback that receives each logged call. Must be called before the first collective.
  void log_calls(NoteCall note) { note_ = std::move(note); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const LogScope log(*this, {.op = "broadcast", .root = options.rootRank}, tensors);
    return Inner::broadcast(tensors, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const LogScope log(*this, {.op = "allreduce", .reduction = reduction_name(options.reduceOp)}, tensors);
    return Inner::allreduce(tensors, options);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    const LogScope log(*this, {.op = "allreduce", .reduction = reduction_name(options.reduceOp)}, tensors);
    return Inner::allreduce_coalesced(tensors, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const LogScope log(*this, {.op = "reduce", .reduction = reduction_name(options.reduceOp), .root = options.rootRank},
                       tensors);
    return Inner::reduce(tensors, options);
  }
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    const LogScope log(*this, {.op = "allgather"}, all_pieces(outputs, inputs));
    return Inner::allgather(outputs, inputs, options);
  }
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    // A gather is described by its inputs, because only the root has outputs.
    const LogScope log(*this, {.op = "gather", .root = options.rootRank}, inputs);
    return Inner::gather(outputs, inputs, options);
  }
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    // A scatter is described by its outputs, because only the root has inputs.
    const LogScope log(*this, {.op = "scatter", .root = options.rootRank}, outputs);
    return Inner::scatter(outputs, inputs, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override {
    const LogScope log(*this, {.op = "reduce_scatter", .reduction = reduction_name(options.reduceOp)},
                       all_pieces(inputs, outputs));
    return Inner::reduce_scatter(outputs, inputs, options);
  }
  // An all-to-all is described by its name alone, because its sizes may differ between ranks.
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    const LogScope log(*this, {.op = "alltoall"}, {});
    return Inner::alltoall(outputs, inputs, options);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    const LogScope log(*this, {.op = "alltoall"}, {});
    return Inner::alltoall_base(output, input, output_sizes, input_sizes, options);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    const LogScope log(*this, {.op = "barrier"}, {});
    return Inner::barrier(options);
  }
  // LibTorch 2.15 renames these functions: _allgather_base() becomes all_gather_single(), _reduce_scatter_base()
  // becomes reduce_scatter_single().
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  WorkPtr _allgather_base(at::Tensor& whole, at::Tensor& piece, const c10d::AllgatherOptions& options) override {
    const LogScope log(*this, {.op = "allgather"}, {whole});
    return Inner::_allgather_base(whole, piece, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& piece, at::Tensor& whole,
                               const c10d::ReduceScatterOptions& options) override {
    const LogScope log(*this, {.op = "reduce_scatter", .reduction = reduction_name(options.reduceOp)}, {whole});
    return Inner::_reduce_scatter_base(piece, whole, options);
  }
#else
  WorkPtr all_gather_single(at::Tensor& whole, at::Tensor& piece, const c10d::AllgatherOptions& options) override {
    const LogScope log(*this, {.op = "allgather"}, {whole});
    return Inner::all_gather_single(whole, piece, options);
  }
  WorkPtr reduce_scatter_single(at::Tensor& piece, at::Tensor& whole,
                                const c10d::ReduceScatterOptions& options) override {
    const LogScope log(*this, {.op = "reduce_scatter", .reduction = reduction_name(options.reduceOp)}, {whole});
    return Inner::reduce_scatter_single(piece, whole, options);
  }
#endif

 private:
  // Logs a collective. Skips collectives that the implementation of another collective calls.
  class LogScope {
   public:
    LogScope(LoggingBackend& backend, const NamedCall& call, const Tensors& tensors) {
      if (depth_ == 0 && backend.note_) {
        const std::string text = describe(call, tensors);
        backend.note_({.number = backend.getSequenceNumberForGroup() + 1, .text = text});
      }
      // The nesting depth of collectives is incremented only after the callback: if the callback throws, the
      // constructor fails and no destructor decrements the depth.
      ++depth_;
    }
    ~LogScope() { --depth_; }
    LogScope(const LogScope&) = delete;
    LogScope& operator=(const LogScope&) = delete;

   private:
    static inline thread_local int depth_ = 0;
  };

  NoteCall note_;
};

}  // namespace dpbench
