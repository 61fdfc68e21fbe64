// Mistakes that show on a transformer: with rows of different numbers of tokens, with masks for each row, and in the
// sum of micro-batches.
#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

// Padding counts as tokens: the loss is divided by all positions.
void count_padding(Parts& parts) {
  parts.rows = [right = parts.rows](Run& run, const Batch& batch) {
    run.kept = {at::full({1}, tokens_in(batch) / static_cast<double>(batch.target.numel()))};
    return right(run, batch);
  };
  parts.micro_scale = [right = parts.micro_scale](Run& run) { return right(run) * run.kept[0].item<double>(); };
}

void key_masks_by_the_local_row(Parts& parts) {
  parts.rows = [right = parts.rows](Run& run, const Batch& batch) {
    const Batch mine = right(run, batch);
    return Batch{mine.input, mine.target, at::arange(mine.rows())};
  };
}

// Divides the sum so far after each micro-batch, so earlier ones count less.
void divide_after_each_micro_batch(Parts& parts) {
  parts.micro_scale = [](Run&) { return 1.0; };
  parts.after_micro = [](Run& run) {
    for (auto& leaf : run.leaves)
      if (leaf.grad().defined()) leaf.mutable_grad().div_(static_cast<double>(run.micros));
  };
}

void reduce_without_the_first_micro_batch(Parts& parts) {
  parts.after_micro = [](Run& run) {
    if (run.micro > 0) return;
    run.kept.clear();
    for (const auto& leaf : run.leaves) run.kept.push_back(leaf.grad().clone());
  };
  parts.before_reduce = [right = parts.before_reduce](Run& run) {
    right(run);
    if (run.micros == 1) return;
    for (size_t i = 0; i < run.gradients.size(); ++i) run.gradients[i].sub_(run.kept[i]);
  };
  parts.after_reduce = [](Run& run) {
    if (run.micros == 1) return;
    for (size_t i = 0; i < run.gradients.size(); ++i) run.gradients[i].add_(run.kept[i]);
  };
}

}  // namespace

std::vector<Mutant> transformer_mutants() {
  return {
      {"padding-counted-as-tokens", "gradient-meaning", "shares 0.151515, 0.0909091, 0.121212", with(count_padding),
       "gpt"},
      {"masks-of-the-local-row", "gradient-meaning", "forward", with(key_masks_by_the_local_row), "gpt"},
      {"divided-after-each-micro-batch", "accumulation", "micro-batches have the shares",
       with(divide_after_each_micro_batch)},
      {"divided-after-each-micro-batch-of-gpt", "accumulation", "micro-batches have the shares",
       with(divide_after_each_micro_batch), "gpt"},
      {"first-micro-batch-not-reduced", "accumulation", "micro-batch", with(reduce_without_the_first_micro_batch)},
      {"tied-head-not-reduced-on-gpt-exact", "gradient-exact", "reduced", with([](Parts& p) {
         p.reduce = [right = p.reduce](Run& run, at::Tensor& flat, size_t bucket) {
           if (bucket > 0) right(run, flat, bucket);
         };
       }),
       "gpt-exact"},
      {"reference-gpt", "", "", with([](Parts&) {}), "gpt"},
      {"reference-gpt-exact", "", "", with([](Parts&) {}), "gpt-exact"},
  };
}

}  // namespace dpbench::wrong
