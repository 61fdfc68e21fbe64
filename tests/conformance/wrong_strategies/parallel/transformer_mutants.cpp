// Mistakes that only a transformer reveals: with padded samples, dropout, recomputation, and many parameters of the
// same shape. Also contains a correct version of each.
#include <algorithm>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

constexpr char gpt[] = "gpt", llama[] = "probe-llama", whole_numbers[] = "gpt-exact";

Batch number_samples_locally(Run&, const Batch& batch) {
  return {batch.input, batch.target, at::arange(batch.samples())};
}

Batch give_padding_a_target(Run&, const Batch& batch) { return {batch.input, batch.target.clamp_min(0), batch.ids}; }

// Recomputes the forward pass for the backward pass. A `step_offset` other than 0 gives the recomputation a wrong step
// number, and hence other dropout masks.
std::function<StrategyInfo()> recomputing(int64_t step_offset) {
  return with([=](Parts& parts) {
    parts.loss = [=](Run& run, const Batch& batch, const at::Tensor& output) {
      const at::Tensor again = run.model->forward(batch.input, {run.step_seed, run.step + step_offset, batch.ids});
      return run.workload.loss(again + (output - again).detach(), batch.target);
    };
  });
}

// A mistake: computes the loss from all tokens, but the gradient from the first half of them.
at::Tensor loss_with_half_a_gradient(Run& run, const Batch& batch, const at::Tensor& output) {
  const int64_t tokens = output.size(1), half = tokens / 2;
  return run.workload.loss(at::cat({output.narrow(1, 0, half), output.narrow(1, half, tokens - half).detach()}, 1),
                           batch.target);
}

// Fills buckets in the reverse order of the parameters if reversed(run). All parameters of a bucket have one shape, so
// the messages of ranks with different orders have equal sizes.
std::function<StrategyInfo()> filling_buckets(const std::function<bool(const Run&)>& reversed) {
  return with([=](Parts& parts) {
    parts.buckets = [=](Run& run) {
      std::vector<std::vector<size_t>> result;
      for (size_t i = 0; i < run.leaves.size(); ++i) {
        if (!run.gradients[i].defined()) continue;
        const auto alike = std::ranges::find_if(
            result, [&](const auto& bucket) { return run.leaves[bucket.front()].sizes() == run.leaves[i].sizes(); });
        alike == result.end() ? result.push_back({i}) : alike->push_back(i);
      }
      for (auto& bucket : result)
        if (reversed(run)) std::ranges::reverse(bucket);
      return result;
    };
  });
}

}  // namespace

std::vector<Mutant> transformer_mutants() {
  const auto never = [](const Run&) { return false; };
  const auto always = [](const Run&) { return true; };
  const auto on_rank_1 = [](const Run& run) { return run.rank == 1; };
  const auto halved = with([](Parts& parts) { parts.loss = loss_with_half_a_gradient; });
  return {
      {"dropout-keyed-by-the-row-of-the-rank", "gradient-meaning", "dropout masks",
       with([](Parts& parts) { parts.batch = number_samples_locally; }), gpt},
      {"padding-has-a-target", "loss-value", "wrong targets",
       with([](Parts& parts) { parts.batch = give_padding_a_target; }), gpt},
      {"recomputed-with-other-dropout-masks", "gradient-meaning", "recomputed differently", recomputing(1), gpt},
      {"recomputed-with-the-same-dropout-masks", "", "", recomputing(0), gpt},
      {"half-of-the-loss-without-gradient", "gradient-meaning", "without gradient", halved, gpt},
      {"half-of-the-loss-without-gradient-llama", "gradient-meaning", "without gradient", halved, llama},
      {"half-of-the-loss-without-gradient-exact", "gradient-exact", "without gradient", halved, whole_numbers},
      {"buckets-filled-in-another-order-on-one-rank", "gradient-meaning", "another order", filling_buckets(on_rank_1),
       gpt},
      {"buckets-filled-in-another-order-on-one-rank-exact", "gradient-exact", "another order",
       filling_buckets(on_rank_1), whole_numbers},
      {"tied-head-not-reduced", "gradient-exact", "reduced", with([](Parts& p) {
         p.reduce = [right = p.reduce](Run& run, at::Tensor& flat, size_t bucket) {
           if (bucket > 0) right(run, flat, bucket);
         };
       }),
       whole_numbers},
      {"buckets-of-equal-shapes", "", "", filling_buckets(never), llama},
      {"buckets-filled-backwards-on-all-ranks", "", "", filling_buckets(always), whole_numbers},
  };
}

}  // namespace dpbench::wrong
