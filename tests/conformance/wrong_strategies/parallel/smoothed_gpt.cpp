#include "tests/conformance/wrong_strategies/parallel/smoothed_gpt.h"

#include <memory>
#include <utility>

#include <ATen/ATen.h>

#include "harness/conform/scenario/wrapped_workload.h"

namespace dpbench::wrong::smoothed {
namespace {

struct Inner {
  std::unique_ptr<Workload> gpt;
};

// Label smoothing adds to the cross-entropy of each token: smoothing x (label's logit - mean of all logits).
class SmoothedGpt : Inner, public WrappedWorkload {
 public:
  explicit SmoothedGpt(std::unique_ptr<Workload> workload) : Inner{std::move(workload)}, WrappedWorkload(*gpt) {}

  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return WrappedWorkload::loss(output, target) + smoothed(output, target, {0, vocabulary}, tokens_in(target));
  }
  // The cross-entropy is summed over ranks before the smoothing term: mistakes in context_mutants.cpp depend on this
  // order.
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override {
    const at::Tensor loss = WrappedWorkload::split_loss(output, target, split);
    const at::Tensor own = split.sequence ? pieces_of(target, 1, split.sequence->tokens()) : target;
    const Piece columns = split.tensor ? own_piece(vocabulary, *split.tensor) : Piece{0, vocabulary};
    at::Tensor term = smoothed(output, own, columns, tokens_in(target));
    if (split.tensor) term = split.tensor->total(term);
    if (split.sequence) term = split.sequence->total(term);
    return loss + term;
  }

 private:
  // Returns the number of tokens with a target. Padding has a negative label.
  static at::Tensor tokens_in(const at::Tensor& target) { return target.ge(0).sum(); }

  // Returns the contribution of these tokens and columns of the logits to the smoothing term of the loss. tokens: the
  // number of tokens over which the loss is averaged.
  static at::Tensor smoothed(const at::Tensor& logits, const at::Tensor& target, const Piece& columns,
                             const at::Tensor& tokens) {
    const at::Tensor counted = target.ge(0).to(logits.scalar_type()), label = target - columns.first;
    const at::Tensor own = label.ge(0).logical_and(label.lt(columns.size)).to(logits.scalar_type());
    const at::Tensor picked = logits.gather(2, label.clamp(0, columns.size - 1).unsqueeze(2)).squeeze(2) * own;
    const at::Tensor mean = logits.sum(2) / static_cast<double>(vocabulary);
    return ((picked - mean) * counted).sum() / tokens * smoothing;
  }
};

const RegisterWorkload registered{{.name = "smoothed-gpt",
                                   .summary = "gpt with label smoothing",
                                   .batch = 4,
                                   .make = [](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
                                     WorkloadOptions tiny = options;
                                     tiny.model = "tiny", tiny.scale = 1;
                                     return std::make_unique<SmoothedGpt>(workload_registry().at("gpt").make(tiny));
                                   },
                                   .probe = true}};

}  // namespace
}  // namespace dpbench::wrong::smoothed
