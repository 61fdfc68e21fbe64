// Mistakes in the weights of ranks and micro-batches: with unequal numbers of samples or tokens, and with gradients
// that accumulate over micro-batches. Also contains a correct version of each.
#include <map>
#include <mutex>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

constexpr char text_model[] = "gpt";  // samples of this model have different numbers of tokens

// --- Averaging over all samples or tokens instead of over ranks

using Count = std::function<double(const Run&, const Batch&)>;

double terms_in(const Run& run, const Batch& batch) { return static_cast<double>(run.workload.loss_terms(batch)); }
double targets_in(const Run&, const Batch& batch) { return static_cast<double>(batch.target.numel()); }

// Returns the weight of a rank's mean gradient. own: number of loss terms of this rank's samples; all: number of loss
// terms of all ranks' samples.
using Factor = std::function<double(Run&, double own, double all)>;

double share_of_terms(Run& run, double own, double all) {
  return run.workload.sum_loss() ? run.world : own * run.world / all;
}

// Averages a rank's micro-batches with the weights `weight`, then averages the ranks with the factors `factor`. Each
// factor is computed from the numbers of loss terms that `terms` returns.
std::function<StrategyInfo()> weighted(const Factor& factor, const Count& terms = terms_in,
                                       const Count& weight = terms_in) {
  struct Sums {
    double terms = 0, weights = 0;
  };
  const auto change = [=](Parts& parts) {
    const auto seen = std::make_shared<std::map<int, Sums>>();
    const auto guard = std::make_shared<std::mutex>();
    const auto of_rank = [=](Run& run) -> Sums& {
      const std::lock_guard lock(*guard);
      return (*seen)[run.rank];
    };
    parts.clear = [=, right = parts.clear](Run& run) {
      right(run);
      of_rank(run) = {};
    };
    parts.batch = [=](Run& run, const Batch& batch) {
      Sums& sums = of_rank(run);
      sums.terms += terms(run, batch);
      sums.weights += weight(run, batch);
      run.parts.micro_scale = [mine = weight(run, batch)](Run&) { return mine; };
      return batch;
    };
    parts.before_reduce = [=, right = parts.before_reduce](Run& run) {
      const Sums own = of_rank(run);
      at::Tensor all = at::full({1}, own.terms, at::kDouble);
      run.all_reduce(all);
      for (auto& leaf : run.leaves)
        if (leaf.grad().defined()) leaf.mutable_grad().mul_(factor(run, own.terms, all.item<double>()) / own.weights);
      right(run);
    };
  };
  return with(change, Gradient::global_mean);
}

// --- Gradients that accumulate over micro-batches

std::vector<at::Tensor> taken_gradients(const Run& run) {
  std::vector<at::Tensor> result;
  for (const auto& leaf : run.leaves) result.push_back(leaf.grad().clone());
  return result;
}

void add_to_gradients(std::vector<at::Tensor>& to, const std::vector<at::Tensor>& gradients) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = to[i] + gradients[i];
}

void divide_what_has_accumulated(Run& run) {
  for (auto& leaf : run.leaves) leaf.mutable_grad().div_(static_cast<double>(run.micros));
}

// A mistake: after each micro-batch, adds the whole accumulated gradient to the step's gradient.
void add_what_has_accumulated(Parts& parts) {
  parts.after_micro = [](Run& run) {
    const auto now = taken_gradients(run);
    run.micro == 0 ? void(run.kept = now) : add_to_gradients(run.kept, now);
  };
  parts.before_reduce = [right = parts.before_reduce](Run& run) {
    for (size_t i = 0; i < run.leaves.size(); ++i) run.leaves[i].mutable_grad() = run.kept[i];
    right(run);
  };
}

// A mistake: leaves the first `count` micro-batches out of the reduction, and adds this rank's own gradient of them
// afterwards.
void not_reducing_the_first(Parts& parts, const std::function<int64_t(const Run&)>& count) {
  parts.after_micro = [=](Run& run) {
    if (run.micro + 1 != count(run)) return;
    run.kept = taken_gradients(run);
    run.parts.clear(run);
  };
  parts.after_reduce = [=](Run& run) {
    if (count(run) > 0) add_to_gradients(run.gradients, run.kept);
  };
}

}  // namespace

std::vector<Mutant> weight_mutants() {
  const auto changed = [](const auto& change) { return with(change); };
  const auto divided_each_time = changed([](Parts& parts) {
    parts.micro_scale = [](Run&) { return 1.0; };
    parts.after_micro = divide_what_has_accumulated;
  });
  const auto without_the_first = changed(
      [](Parts& parts) { not_reducing_the_first(parts, [](const Run& run) { return run.micros > 1 ? 1 : 0; }); });
  return {
      {"rows-weighted-without-the-world", "gradient-uneven", "averaged over 3",
       weighted([](Run&, double own, double all) { return own / all; })},
      {"rows-weighted-inversely", "gradient-uneven", "shares",
       weighted([](Run& run, double own, double all) { return all / run.world / own; })},
      {"weighted-by-rows", "", "", weighted(share_of_terms)},
      {"weighted-by-tokens", "", "", weighted(share_of_terms), text_model},
      {"padding-counted-as-tokens", "gradient-uneven", "padding", weighted(share_of_terms, targets_in, targets_in),
       text_model},
      {"each-rank-divides-by-its-own-tokens", "gradient-meaning", "ranks' means",
       weighted([](Run&, double, double) { return 1.0; }), text_model},
      {"tokens-summed-over-a-rank-and-averaged-over-ranks", "gradient-meaning", "summed over",
       weighted([](Run&, double own, double) { return own; }), text_model},
      {"tokens-of-micro-batches-not-weighted", "accumulation", "micro-batches' means",
       weighted(share_of_terms, terms_in, [](const Run&, const Batch&) { return 1.0; }), text_model},
      {"divided-after-each-micro-batch", "accumulation", "divided|each micro-batch", divided_each_time},
      {"divided-after-each-micro-batch-of-gpt", "accumulation", "divided|each micro-batch", divided_each_time,
       text_model},
      {"accumulated-gradient-added-in-each-micro-batch", "accumulation", "added again",
       changed(add_what_has_accumulated)},
      {"first-micro-batch-not-reduced", "accumulation", "first micro-batch|not reduced", without_the_first},
      {"first-micro-batch-of-gpt-not-reduced", "accumulation", "first micro-batch|not reduced", without_the_first,
       text_model},
      {"last-micro-batch-alone-reduced", "accumulation", "last micro-batch|reduced",
       changed([](Parts& parts) { not_reducing_the_first(parts, [](const Run& run) { return run.micros - 1; }); })},
  };
}

}  // namespace dpbench::wrong
