// The workload gpt-exact: a gpt model that computes with small whole numbers. Sums are exact in any order, so all
// correct strategies give the same bits. A lost, doubled or misplaced contribution changes a whole number.
#include <algorithm>
#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "workloads/gpt/gpt.h"

namespace dpbench::gpt {
namespace {

Shape exact_shape(const std::string& more) {
  Shape shape = parse_shape("layers=2,hidden=18,heads=3,mlp=23,seq=5,vocab=257" + more);
  shape.exact = true;
  return shape;
}

class GptExact : public Gpt {
 public:
  // options.scale must be the world size. The loss is multiplied by it, so that the mean of the ranks' gradients
  // consists of whole numbers.
  GptExact(const WorkloadOptions& options, const std::string& sizes)
      : Gpt(exact_shape(sizes), ""), world_(static_cast<double>(std::max<int64_t>(options.scale, 1))) {}

  // Returns a weighted sum of all logits and, in a model with experts, of the balance losses. Each weight is -world, 0
  // or world (the world size), depending on the target and the index of the logit.
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return weighted_sums(output, target, 0).sum();
  }
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override {
    const at::Tensor labels = own_targets(target, split);
    const at::Tensor sum = split.tensor
                               ? split.tensor->total(weighted_sums(output, labels, columns(*split.tensor).first)).sum()
                               : loss(output, labels);
    return split.sequence ? split.sequence->total(sum) : sum;
  }
  bool sum_loss() const override { return true; }
  // The learning rate is 0. The parameters then never change, and so stay whole numbers.
  OptimizerSpec optimizer() const override { return {.learning_rate = 0}; }

 private:
  // Returns, for each sample, the weighted sum of its logits. Each weight is -world, 0 or world (the world size),
  // depending on the target and the vocabulary index. first: vocabulary index of the first logit in `output`.
  at::Tensor weighted_sums(const at::Tensor& output, const at::Tensor& target, int64_t first) const {
    const at::Tensor logits = at::arange(first, first + output.size(-1), target.options());
    const at::Tensor factors = (target.unsqueeze(-1) * 7 + logits * 5).remainder(11).remainder(3).sub(1);
    return (output * (factors * world_)).sum({1, 2});
  }

  double world_;
};

// Returns a variant of the workload gpt-exact. sizes: the sizes in which its model differs, in the format of the flag
// --model. WorkloadOptions::model can override them.
WorkloadInfo exact_info(const std::string& name, const std::string& summary, const std::string& sizes,
                        bool experts = false) {
  return {.name = name,
          .summary = summary,
          .scaling = Scaling::weak,
          .batch = 2,
          .make = [sizes](const WorkloadOptions& options) -> std::unique_ptr<Workload> {
            return std::make_unique<GptExact>(options, sizes + (options.model.empty() ? "" : ",") + options.model);
          },
          .probe = true,
          .experts = experts};
}

const RegisterWorkload exact{exact_info("gpt-exact", "gpt in whole numbers: its gradients are exact in any order", "")};
// The variant gpt-exact-llama leaves out Llama's rotary positions, because sines are not whole numbers. Three query
// heads share a key and value head.
const RegisterWorkload exact_llama{exact_info("gpt-exact-llama", "gpt-exact as Llama: shared heads, SwiGLU, own head",
                                              ",style=llama,hidden=12,heads=6,kv_heads=2,tied=off")};
const RegisterWorkload exact_experts{
    exact_info("gpt-exact-experts", "gpt-exact with experts", ",experts=5,mlp=7", /*experts=*/true)};

}  // namespace
}  // namespace dpbench::gpt
