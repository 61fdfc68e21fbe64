// Mistakes around a training step: wrong samples or order, and wrong zeroing, clipping or reporting of gradients.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

Batch take_samples_of_rank_0(Run& run, const Batch& batch) {
  at::Tensor ids = batch.ids.clone();
  run.broadcast(ids);
  return run.workload.batch(ids);
}

Batch drop_last_row(Run&, const Batch& batch) {
  const int64_t samples = std::max<int64_t>(batch.samples() - 1, 1);
  return {batch.input.narrow(0, 0, samples), batch.target.narrow(0, 0, samples), batch.ids.narrow(0, 0, samples)};
}

Batch reverse_targets(Run&, const Batch& batch) { return {batch.input, batch.target.flip(0), batch.ids}; }

void keep_the_last_micro_batch(Run& run) {
  if (run.micro + 1 < run.micros) run.parts.clear(run);
}

// A mistake: reduces after every micro-batch instead of once per step. The result stays correct, because the next
// reduction averages equal values; only the number of reductions is wrong.
void reduce_after_each_micro_batch(Run& run) {
  if (run.micro + 1 == run.micros) return;
  for (auto& leaf : run.leaves) {
    run.all_reduce(leaf.mutable_grad());
    leaf.mutable_grad().div_(run.world);
  }
}

double samples_in(const Batch& batch) { return static_cast<double>(batch.samples()); }

// A mistake: weights each micro-batch by its number of samples or tokens, relative to the first micro-batch, and
// divides at the end. With a single micro-batch the result is bit-identical to the correct one.
void weight_micro_batches(Parts& parts, double (*size)(const Batch&)) {
  // for each rank: size of the step's first micro-batch, and the total size of its micro-batches so far
  const auto seen = std::make_shared<std::map<int, std::pair<double, double>>>();
  const auto guard = std::make_shared<std::mutex>();
  parts.batch = [=](Run& run, const Batch& batch) {
    const std::lock_guard lock(*guard);
    auto& [first, all] = (*seen)[run.rank];
    const double mine = size(batch);
    if (run.micro == 0) first = mine, all = 0;
    all += mine;
    run.parts.micro_scale = [scale = mine / first](Run&) { return scale; };
    return batch;
  };
  parts.before_reduce = [=, right = parts.before_reduce](Run& run) {
    double share = 1;
    {
      const std::lock_guard lock(*guard);
      const auto& [first, all] = (*seen)[run.rank];
      share = first / all;
    }
    for (auto& leaf : run.leaves)
      if (leaf.grad().defined()) leaf.mutable_grad().mul_(share);
    right(run);
  };
}

// A mistake: each rank reduces only the gradients of the parameters that it used itself. A rank that used more
// parameters than the others then waits for them.
void reduce_only_used(Parts& parts) {
  parts.before_reduce = [](Run& run) {
    run.gradients.clear();
    for (const auto& leaf : run.leaves) run.gradients.push_back(leaf.grad());
  };
}

// Imitates a mistake: the gradient of a shared weight is reduced before the weight's second use in the model has added
// its part. Half of the gradient then stays this rank's own.
void reduce_tied_partly(Parts& parts) {
  const auto own = std::make_shared<std::map<int, at::Tensor>>();
  const auto guard = std::make_shared<std::mutex>();
  parts.before_reduce = [=, right = parts.before_reduce](Run& run) {
    right(run);
    const std::lock_guard lock(*guard);
    (*own)[run.rank] = run.gradients[0].clone();
  };
  parts.after_reduce = [=](Run& run) {
    const std::lock_guard lock(*guard);
    run.gradients[0] = run.gradients[0] * 0.5 + (*own)[run.rank] * 0.5;
  };
}

void divide_by_using_ranks(Parts& parts) {
  parts.before_reduce = [right = parts.before_reduce](Run& run) {
    right(run);
    for (size_t i = 0; i < run.leaves.size(); ++i) {
      at::Tensor used = at::full({1}, run.leaves[i].grad().defined() ? 1 : 0, at::kInt);
      run.all_reduce(used);
      if (run.gradients[i].defined()) run.gradients[i] = run.gradients[i] * run.world / used.item<int>();
    }
  };
}

void report_zeros_for_unused(Parts& parts) {
  parts.before_reduce = [right = parts.before_reduce](Run& run) {
    right(run);
    for (size_t i = 0; i < run.leaves.size(); ++i)
      if (!run.gradients[i].defined()) run.gradients[i] = at::zeros_like(run.leaves[i]);
  };
}

void divide_by_ranks_with_rows(Parts& parts) {
  parts.after_reduce = [](Run& run) {
    at::Tensor with_rows = at::full({1}, run.micros > 0 ? 1 : 0, at::kInt);
    run.all_reduce(with_rows);
    for (auto& gradient : run.gradients)
      if (gradient.defined()) gradient = gradient * run.world / with_rows.item<int>();
  };
}

void count_tied_twice(Run& run) {
  for (size_t i = 0; i < run.names.size(); ++i)
    if (run.names[i] == "encoder") run.gradients[i] = run.gradients[i] * 2;
}

void skip_a_collective(Run& run) {
  if (run.rank == 1 && run.step == 1) return;
  at::Tensor flag = at::ones({1});
  run.all_reduce(flag);
}

void report_loss_of_rank_0(Run& run, StepResult& result) {
  result.loss = result.loss.detach().clone();
  run.broadcast(result.loss);
}

at::Tensor evaluate_and_stay(Run& run, const Batch& batch) {
  run.model->eval();
  return run.model->forward(batch.input.to(run.dtype), {run.step_seed, 0, batch.ids});
}

// Makes a reference strategy in which `wrong` replaces one part of the training step, except in float64, which most
// checks use.
using Part = std::function<void(Run&)> Parts::*;
std::function<StrategyInfo()> in_float32(Part part, const std::function<void(Run&)>& wrong) {
  return with([=](Parts& parts) {
    parts.*part = [=, right = parts.*part](Run& run) { run.dtype == at::kDouble ? right(run) : wrong(run); };
  });
}

void round_accumulated(Run& run) {
  if (run.micro + 1 == run.micros) return;
  for (auto& leaf : run.leaves) leaf.mutable_grad().copy_(leaf.grad().to(at::kBFloat16));
}

void later_buckets_in_float16(Parts& parts) {
  parts.reduce = [right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
    if (run.dtype != at::kDouble && bucket > 0) flat.copy_(flat.to(at::kHalf));
    right(run, flat, bucket);
  };
}

at::Tensor evaluate_in_training_mode(Run& run, const Batch& batch) {
  return run.model->forward(batch.input.to(run.dtype), {run.step_seed, 0, batch.ids});
}

}  // namespace

std::vector<Mutant> step_mutants() {
  return {
      {"every-rank-reads-the-same-rows", "gradient-meaning", "same",
       with([](Parts& p) { p.batch = take_samples_of_rank_0; })},
      {"last-row-dropped", "output-shape", "found [3, 3]", with([](Parts& p) { p.batch = drop_last_row; })},
      {"targets-in-another-order", "loss-value", "targets", with([](Parts& p) { p.batch = reverse_targets; })},
      {"gradients-not-zeroed", "gradient-meaning", "zeroed", with([](Parts& p) { p.clear = [](Run&) {}; })},
      {"micro-batch-overwrites", "accumulation", "overwrote",
       with([](Parts& p) { p.after_micro = keep_the_last_micro_batch; })},
      {"accumulation-not-divided", "accumulation", "not divided",
       with([](Parts& p) { p.micro_scale = [](Run&) { return 1.0; }; })},
      {"accumulation-divided-twice", "accumulation", "twice", with([](Parts& p) {
         p.micro_scale = [](Run& run) { return 1.0 / static_cast<double>(run.micros * run.micros); };
       })},
      {"micro-batches-weighted-by-rows", "accumulation", "weighted",
       with([](Parts& p) { weight_micro_batches(p, samples_in); })},
      {"micro-batches-weighted-by-tokens", "accumulation", "weighted",
       with([](Parts& p) { weight_micro_batches(p, tokens_in); }), "gpt"},
      {"accumulation-divided-only-once-in-a-step", "two-backwards", "one micro-batch", with([](Parts& p) {
         p.micro_scale = [](Run& run) { return run.micro == 0 ? 1.0 : 1.0 / static_cast<double>(run.micros); };
       })},
      {"reduced-after-each-micro-batch", "collective-count", "found 27",
       with([](Parts& p) { p.after_micro = reduce_after_each_micro_batch; })},
      {"micro-batches-added-in-bfloat16", "accumulation-replay", "bfloat16",
       in_float32(&Parts::after_micro, round_accumulated)},
      {"later-buckets-of-float32-sent-in-float16", "gradient-uneven-replay", "float16", with(later_buckets_in_float16)},
      {"divided-by-the-ranks-that-used-it", "gradient-uneven", "3 times", with(divide_by_using_ranks), "probe-branch"},
      {"zeros-for-the-unused", "unused-parameters", "zeros", with(report_zeros_for_unused), "probe-unused"},
      {"divided-by-the-ranks-with-rows", "empty-shard", "too few", with(divide_by_ranks_with_rows)},
      {"tied-parameter-counted-twice", "gradient-meaning", "counted twice",
       with([](Parts& p) { p.after_reduce = count_tied_twice; }), "probe-tied"},
      {"tied-parameter-partly-reduced", "gradient-meaning", "only|part", with(reduce_tied_partly), "probe-tied"},
      {"unused-parameter-hangs", "run-completes", "collectives", with(reduce_only_used), "probe-branch"},
      {"a-rank-skips-a-collective", "run-completes", "collectives",
       with([](Parts& p) { p.after_reduce = skip_a_collective; })},
      {"loss-of-rank-0", "loss-value", "another rank", with([](Parts& p) { p.report = report_loss_of_rank_0; })},
      {"loss-summed-over-micro-batches", "loss-value", "summed", with([](Parts& p) {
         p.report = [](Run& run, StepResult& result) { result.loss = result.loss * static_cast<double>(run.micros); };
       })},
      {"output-in-float32", "output-dtype", "found Float", with([](Parts& p) {
         p.report = [](Run&, StepResult& result) { result.output = result.output.to(at::kFloat); };
       })},
      {"output-transposed", "output-shape", "found [3, 4]",
       with([](Parts& p) { p.report = [](Run&, StepResult& result) { result.output = result.output.t(); }; })},
      {"output-of-another-row-order", "output-value", "order",
       with([](Parts& p) { p.report = [](Run&, StepResult& result) { result.output = result.output.flip(0); }; })},
      {"evaluated-in-training-mode", "evaluation", "training mode",
       with([](Parts& p) { p.evaluate = evaluate_in_training_mode; }), "probe-batch-norm"},
      {"evaluated-in-training-mode-in-float32", "evaluation-replay", "training mode", with([](Parts& p) {
         p.evaluate = [right = p.evaluate](Run& run, const Batch& batch) {
           return (run.dtype == at::kDouble ? right : evaluate_in_training_mode)(run, batch);
         };
       }),
       "probe-batch-norm"},
      {"evaluated-in-bfloat16-instead-of-float32", "evaluation-replay", "narrower", with([](Parts& p) {
         p.evaluate = [right = p.evaluate](Run& run, const Batch& batch) {
           const at::Tensor output = right(run, batch);
           return run.dtype == at::kDouble ? output : output.to(at::kBFloat16).to(run.dtype);
         };
       })},
      {"output-in-bfloat16-instead-of-float32", "output-replay", "narrower", with([](Parts& p) {
         p.report = [](Run& run, StepResult& result) {
           if (run.dtype != at::kDouble) result.output = result.output.to(at::kBFloat16).to(run.dtype);
         };
       })},
      {"loss-of-rank-0-in-float32", "loss-replay", "another rank", with([](Parts& p) {
         p.report = [](Run& run, StepResult& result) {
           if (run.dtype != at::kDouble) report_loss_of_rank_0(run, result);
         };
       })},
      {"evaluation-mode-never-left", "buffers", "evaluation mode",
       with([](Parts& p) { p.evaluate = evaluate_and_stay; }), "probe-batch-norm"},
      {"evaluation-waits-for-the-others", "evaluation", "wait", with([](Parts& p) {
         p.evaluate = [right = p.evaluate](Run& run, const Batch& batch) {
           at::Tensor flag = at::ones({1});
           run.all_reduce(flag);
           return right(run, batch);
         };
       })},
      {"dropout-differs-by-rank", "gradient-meaning", "forward", with([](Parts& p) {
         p.start = [right = p.start](Run& run) {
           right(run);
           run.step_seed += static_cast<uint64_t>(run.rank);
         };
       }),
       "convnet"},
      {"the-same-dropout-every-step", "gradient-meaning", "forward", with([](Parts& p) {
         p.batch = [right = p.batch](Run& run, const Batch& batch) {
           run.step = 0;
           return right(run, batch);
         };
       }),
       "convnet"},
      {"buckets-in-another-order-on-one-rank", "run-completes", "collectives", with([](Parts& p) {
         p.buckets = [right = p.buckets](Run& run) {
           auto buckets = right(run);
           if (run.rank == 1) std::reverse(buckets.begin(), buckets.end());
           return buckets;
         };
       })},
      {"another-gradient-reported", "optimizer-replay", "another gradient", with([](Parts& p) {
         p.update = [right = p.update](Run& run) {
           for (auto& gradient : run.gradients)
             if (gradient.defined()) gradient = gradient * 1.5;
           right(run);
           for (auto& gradient : run.gradients)
             if (gradient.defined()) gradient = gradient / 1.5;
         };
       })},
  };
}

}  // namespace dpbench::wrong
