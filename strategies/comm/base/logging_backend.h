// Logs each collective that a backend of c10d's is asked for: those backends do not notice that ranks call different
// ones. Implemented by inheritance, not wrapping, so timing is unaffected apart from the log.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "strategies/api/backend.h"

namespace dpbench {

// A collective nearly as shm names it, as in "allreduce of 12 Float (sum)": what all ranks must say alike. root -1: it
// has none.
struct NamedCall {
  const char* op;
  const char* reduction = "";
  int64_t root = -1;
};
std::string words_of(const NamedCall& call, const std::vector<at::Tensor>& tensors);
// What all ranks share of a call with a tensor for each rank: the pieces together, for a rank's own may be of another
// size.
const std::vector<at::Tensor>& all_pieces(const std::vector<std::vector<at::Tensor>>& lists,
                                          const std::vector<at::Tensor>& own);

template <class Inner>
class LoggingBackend : public Inner {
 public:
  using Inner::Inner;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;

  // Before the first collective.
  void hear_calls(NoteCall note) { note_ = std::move(note); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const Say say(*this, {.op = "broadcast", .root = options.rootRank}, tensors);
    return Inner::broadcast(tensors, options);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const Say say(*this, {.op = "allreduce", .reduction = reduction_name(options.reduceOp)}, tensors);
    return Inner::allreduce(tensors, options);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    const Say say(*this, {.op = "allreduce", .reduction = reduction_name(options.reduceOp)}, tensors);
    return Inner::allreduce_coalesced(tensors, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const Say say(*this, {.op = "reduce", .reduction = reduction_name(options.reduceOp), .root = options.rootRank},
                  tensors);
    return Inner::reduce(tensors, options);
  }
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    const Say say(*this, {.op = "allgather"}, all_pieces(outputs, inputs));
    return Inner::allgather(outputs, inputs, options);
  }
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    const Say say(*this, {.op = "gather", .root = options.rootRank}, inputs);  // one rank alone has outputs
    return Inner::gather(outputs, inputs, options);
  }
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    const Say say(*this, {.op = "scatter", .root = options.rootRank}, outputs);  // one rank alone has inputs
    return Inner::scatter(outputs, inputs, options);
  }
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override {
    const Say say(*this, {.op = "reduce_scatter", .reduction = reduction_name(options.reduceOp)},
                  all_pieces(inputs, outputs));
    return Inner::reduce_scatter(outputs, inputs, options);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    const Say say(*this, {.op = "barrier"}, {});
    return Inner::barrier(options);
  }
  // By the names that each version has.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  WorkPtr _allgather_base(at::Tensor& whole, at::Tensor& piece, const c10d::AllgatherOptions& options) override {
    const Say say(*this, {.op = "allgather"}, {whole});
    return Inner::_allgather_base(whole, piece, options);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& piece, at::Tensor& whole,
                               const c10d::ReduceScatterOptions& options) override {
    const Say say(*this, {.op = "reduce_scatter", .reduction = reduction_name(options.reduceOp)}, {whole});
    return Inner::_reduce_scatter_base(piece, whole, options);
  }
#else
  WorkPtr all_gather_single(at::Tensor& whole, at::Tensor& piece, const c10d::AllgatherOptions& options) override {
    const Say say(*this, {.op = "allgather"}, {whole});
    return Inner::all_gather_single(whole, piece, options);
  }
  WorkPtr reduce_scatter_single(at::Tensor& piece, at::Tensor& whole,
                                const c10d::ReduceScatterOptions& options) override {
    const Say say(*this, {.op = "reduce_scatter", .reduction = reduction_name(options.reduceOp)}, {whole});
    return Inner::reduce_scatter_single(piece, whole, options);
  }
#endif

 private:
  // Some calls are made of others: the outermost alone is said.
  class Say {
   public:
    Say(LoggingBackend& noted, const NamedCall& call, const Tensors& tensors) {
      if (depth_ == 0 && noted.note_) noted.note_(noted.getSequenceNumberForGroup() + 1, words_of(call, tensors));
      ++depth_;  // not where that throws: nothing would take it back
    }
    ~Say() { --depth_; }
    Say(const Say&) = delete;
    Say& operator=(const Say&) = delete;

   private:
    static inline thread_local int depth_ = 0;
  };

  NoteCall note_;
};

}  // namespace dpbench
