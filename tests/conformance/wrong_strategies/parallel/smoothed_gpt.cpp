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
    return WrappedWorkload::loss(output, target) + smoothed(output, target, {0, vocabulary});
  }
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override {
    const at::Tensor part = smoothed(output, target, own_piece(vocabulary, *split.tensor));
    return WrappedWorkload::split_loss(output, target, split) + split.tensor->total(part);
  }

 private:
  // Returns the contribution of these columns of the logits to the smoothing term of the loss. Padding, which has a
  // negative label, contributes nothing.
  static at::Tensor smoothed(const at::Tensor& logits, const at::Tensor& target, const Piece& columns) {
    const at::Tensor counted = target.ge(0).to(logits.scalar_type()), label = target - columns.first;
    const at::Tensor own = label.ge(0).logical_and(label.lt(columns.size)).to(logits.scalar_type());
    const at::Tensor picked = logits.gather(2, label.clamp(0, columns.size - 1).unsqueeze(2)).squeeze(2) * own;
    const at::Tensor mean = logits.sum(2) / static_cast<double>(vocabulary);
    return ((picked - mean) * counted).sum() / counted.sum() * smoothing;
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
