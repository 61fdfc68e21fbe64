// Mistakes around a step: which rows, how often, what is zeroed, clipped, reported.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

Batch of_rank_0(Run& run, const Batch& batch) {
  at::Tensor ids = batch.ids.clone();
  run.broadcast(ids);
  return run.workload.batch(ids);
}

Batch without_the_last_row(Run&, const Batch& batch) {
  const int64_t rows = std::max<int64_t>(batch.rows() - 1, 1);
  return {batch.input.narrow(0, 0, rows), batch.target.narrow(0, 0, rows), batch.ids.narrow(0, 0, rows)};
}

Batch targets_of_another_order(Run&, const Batch& batch) { return {batch.input, batch.target.flip(0), batch.ids}; }

void keep_the_last_micro_batch(Run& run) {
  if (run.micro + 1 < run.micros) run.parts.clear(run);
}

// The mean of what has been reduced before and of what is new is right; there are only more reductions than needed.
void reduce_after_each_micro_batch(Run& run) {
  if (run.micro + 1 == run.micros) return;
  for (auto& leaf : run.leaves) {
    run.all_reduce(leaf.mutable_grad());
    leaf.mutable_grad().div_(run.world);
  }
}

void clip_before_reducing(Parts& parts) {
  const auto before = parts.before_reduce;
  const auto clip = parts.clip;
  parts.before_reduce = [=](Run& run) {
    before(run);
    clip(run);
  };
  parts.clip = [](Run&) {};
}

void clip_each_parameter(Run& run) {
  if (!run.clip_norm) return;
  for (auto& gradient : run.gradients)
    if (gradient.defined()) gradient.mul_(std::min(1.0, *run.clip_norm / gradient.norm().item<double>()));
}

void clip_by_value(Run& run) {
  if (!run.clip_norm) return;
  for (auto& gradient : run.gradients)
    if (gradient.defined()) gradient.clamp_(-*run.clip_norm, *run.clip_norm);
}

void clip_always(Run& run) {
  if (!run.clip_norm) return;
  double squares = 0;
  for (const auto& gradient : run.gradients) squares += gradient.to(at::kDouble).square().sum().item<double>();
  for (auto& gradient : run.gradients) gradient.mul_(*run.clip_norm / (std::sqrt(squares) + 1e-6));
}

// Each micro-batch counts by its rows. The reference learns how many there are only while it goes: it takes the mean
// after. In units of the first one's rows: with one micro-batch alone not a bit is other than it should be.
void micro_batches_by_rows(Parts& parts) {
  const auto seen = std::make_shared<std::map<int, std::pair<double, double>>>();  // rows of the first, of all
  const auto guard = std::make_shared<std::mutex>();
  parts.rows = [=](Run& run, const Batch& batch) {
    const std::lock_guard lock(*guard);
    auto& [first, all] = (*seen)[run.rank];
    const auto rows = static_cast<double>(batch.rows());
    if (run.micro == 0) first = rows, all = 0;
    all += rows;
    run.parts.micro_scale = [scale = rows / first](Run&) { return scale; };
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

// What this rank did not use it does not reduce, while the others wait for it.
void reduces_only_what_it_used(Parts& parts) {
  parts.before_reduce = [](Run& run) {
    run.gradients.clear();
    for (const auto& leaf : run.leaves) run.gradients.push_back(leaf.grad());
  };
}

// As if the second use of a shared weight came after it was sent off.
void tied_partly_reduced(Parts& parts) {
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

void divide_by_the_ranks_that_used_it(Parts& parts) {
  parts.before_reduce = [right = parts.before_reduce](Run& run) {
    right(run);
    for (size_t i = 0; i < run.leaves.size(); ++i) {
      at::Tensor used = at::full({1}, run.leaves[i].grad().defined() ? 1 : 0, at::kInt);
      run.all_reduce(used);
      if (run.gradients[i].defined()) run.gradients[i] = run.gradients[i] * run.world / used.item<int>();
    }
  };
}

void zeros_where_nothing_was_used(Parts& parts) {
  parts.before_reduce = [right = parts.before_reduce](Run& run) {
    right(run);
    for (size_t i = 0; i < run.leaves.size(); ++i)
      if (!run.gradients[i].defined()) run.gradients[i] = at::zeros_like(run.leaves[i]);
  };
}

void divide_by_the_ranks_with_rows(Parts& parts) {
  parts.after_reduce = [](Run& run) {
    at::Tensor with_rows = at::full({1}, run.micros > 0 ? 1 : 0, at::kInt);
    run.all_reduce(with_rows);
    for (auto& gradient : run.gradients)
      if (gradient.defined()) gradient = gradient * run.world / with_rows.item<int>();
  };
}

void tied_counted_twice(Run& run) {
  for (size_t i = 0; i < run.names.size(); ++i)
    if (run.names[i] == "encoder") run.gradients[i] = run.gradients[i] * 2;
}

void skip_a_collective(Run& run) {
  if (run.rank == 1 && run.step == 1) return;
  at::Tensor flag = at::ones({1});
  run.all_reduce(flag);
}

void loss_of_rank_0(Run& run, StepResult& result) {
  result.loss = result.loss.detach().clone();
  run.broadcast(result.loss);
}

at::Tensor staying_in_evaluation_mode(Run& run, const Batch& batch) {
  run.model->eval();
  return run.model->forward(batch.input.to(run.dtype), {run.step_seed, 0, batch.ids});
}

// The working dtype alone is treated so: in float64, where most is judged, all is right.
using Part = std::function<void(Run&)> Parts::*;
std::function<StrategyInfo()> in_float32(Part part, const std::function<void(Run&)>& wrong) {
  return with([=](Parts& parts) {
    parts.*part = [=, right = parts.*part](Run& run) { run.dtype == at::kDouble ? right(run) : wrong(run); };
  });
}

void round_what_is_added_to(Run& run) {
  if (run.micro + 1 == run.micros) return;
  for (auto& leaf : run.leaves) leaf.mutable_grad().copy_(leaf.grad().to(at::kBFloat16));
}

void all_but_the_first_bucket_in_float16(Parts& parts) {
  parts.reduce = [right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
    if (run.dtype != at::kDouble && bucket > 0) flat.copy_(flat.to(at::kHalf));
    right(run, flat, bucket);
  };
}

at::Tensor in_training_mode(Run& run, const Batch& batch) {
  return run.model->forward(batch.input.to(run.dtype), {run.step_seed, 0, batch.ids});
}

}  // namespace

std::vector<Mutant> step_mutants() {
  return {
      {"every-rank-reads-the-same-rows", "gradient-meaning", "reads the same",
       with([](Parts& p) { p.rows = of_rank_0; })},
      {"last-row-dropped", "output-shape", "found [3, 3]", with([](Parts& p) { p.rows = without_the_last_row; })},
      {"targets-in-another-order", "loss-value", "other targets",
       with([](Parts& p) { p.rows = targets_of_another_order; })},
      {"gradients-not-zeroed", "gradient-meaning", "not zeroed", with([](Parts& p) { p.clear = [](Run&) {}; })},
      {"micro-batch-overwrites", "accumulation", "overwrote",
       with([](Parts& p) { p.after_micro = keep_the_last_micro_batch; })},
      {"accumulation-not-divided", "accumulation", "not divided",
       with([](Parts& p) { p.micro_scale = [](Run&) { return 1.0; }; })},
      {"accumulation-divided-twice", "accumulation", "twice", with([](Parts& p) {
         p.micro_scale = [](Run& run) { return 1.0 / static_cast<double>(run.micros * run.micros); };
       })},
      {"micro-batches-weighed-by-rows", "accumulation", "weighed by its rows", with(micro_batches_by_rows)},
      {"accumulation-divided-only-once-in-a-step", "two-backwards", "one micro-batch was not divided",
       with([](Parts& p) {
         p.micro_scale = [](Run& run) { return run.micro == 0 ? 1.0 : 1.0 / static_cast<double>(run.micros); };
       })},
      {"reduced-after-each-micro-batch", "collective-count", "found 9",
       with([](Parts& p) { p.after_micro = reduce_after_each_micro_batch; })},
      {"clip-missing", "clip", "not limited", with([](Parts& p) { p.clip = [](Run&) {}; })},
      {"clip-always", "clip", "not reached", with([](Parts& p) { p.clip = clip_always; })},
      {"clip-before-the-reduction", "clip", "before the reduction", with(clip_before_reducing)},
      {"clip-each-parameter", "clip", "its own norm", with([](Parts& p) { p.clip = clip_each_parameter; })},
      {"clip-by-value", "clip", "each element", with([](Parts& p) { p.clip = clip_by_value; })},
      {"clip-missing-in-float32", "clip-replay", "not limited", in_float32(&Parts::clip, [](Run&) {})},
      {"clip-before-the-reduction-in-float32", "clip-replay", "before the reduction", with([](Parts& p) {
         Parts wrong = p;
         clip_before_reducing(wrong);
         p.before_reduce = [=, right = p.before_reduce](Run& run) {
           (run.dtype == at::kDouble ? right : wrong.before_reduce)(run);
         };
         p.clip = [right = p.clip](Run& run) {
           if (run.dtype == at::kDouble) right(run);
         };
       })},
      {"micro-batches-added-in-bfloat16", "accumulation-replay", "rounded to bfloat16 on its way",
       in_float32(&Parts::after_micro, round_what_is_added_to)},
      {"later-buckets-of-float32-sent-in-float16", "gradient-uneven-replay", "float16",
       with(all_but_the_first_bucket_in_float16)},
      {"divided-by-the-ranks-that-used-it", "gradient-uneven", "3 times", with(divide_by_the_ranks_that_used_it),
       "probe-branch"},
      {"zeros-for-the-unused", "unused-parameters", "zeros", with(zeros_where_nothing_was_used), "probe-unused"},
      {"divided-by-the-ranks-with-rows", "empty-shard", "one rank too few", with(divide_by_the_ranks_with_rows)},
      {"tied-parameter-counted-twice", "gradient-meaning", "counted twice",
       with([](Parts& p) { p.after_reduce = tied_counted_twice; }), "probe-tied"},
      {"tied-parameter-partly-reduced", "gradient-meaning", "only a part of it is reduced", with(tied_partly_reduced),
       "probe-tied"},
      {"unused-parameter-hangs", "run-completes", "different collectives", with(reduces_only_what_it_used),
       "probe-branch"},
      {"a-rank-skips-a-collective", "run-completes", "different collectives",
       with([](Parts& p) { p.after_reduce = skip_a_collective; })},
      {"loss-of-rank-0", "loss-value", "another rank's", with([](Parts& p) { p.report = loss_of_rank_0; })},
      {"loss-summed-over-micro-batches", "loss-value", "summed over the micro-batches", with([](Parts& p) {
         p.report = [](Run& run, StepResult& result) { result.loss = result.loss * static_cast<double>(run.micros); };
       })},
      {"output-in-float32", "output-dtype", "found Float", with([](Parts& p) {
         p.report = [](Run&, StepResult& result) { result.output = result.output.to(at::kFloat); };
       })},
      {"output-transposed", "output-shape", "found [3, 4]",
       with([](Parts& p) { p.report = [](Run&, StepResult& result) { result.output = result.output.t(); }; })},
      {"output-of-another-row-order", "output-value", "another order",
       with([](Parts& p) { p.report = [](Run&, StepResult& result) { result.output = result.output.flip(0); }; })},
      {"evaluated-in-training-mode", "evaluation", "training mode",
       with([](Parts& p) { p.evaluate = in_training_mode; }), "probe-batch-norm"},
      {"evaluated-in-training-mode-in-float32", "evaluation-replay", "training mode", with([](Parts& p) {
         p.evaluate = [right = p.evaluate](Run& run, const Batch& batch) {
           return (run.dtype == at::kDouble ? right : in_training_mode)(run, batch);
         };
       }),
       "probe-batch-norm"},
      {"evaluated-in-bfloat16-where-float32", "evaluation-replay", "narrower type", with([](Parts& p) {
         p.evaluate = [right = p.evaluate](Run& run, const Batch& batch) {
           const at::Tensor output = right(run, batch);
           return run.dtype == at::kDouble ? output : output.to(at::kBFloat16).to(run.dtype);
         };
       })},
      {"output-of-bfloat16-where-float32", "output-replay", "narrower type", with([](Parts& p) {
         p.report = [](Run& run, StepResult& result) {
           if (run.dtype != at::kDouble) result.output = result.output.to(at::kBFloat16).to(run.dtype);
         };
       })},
      {"loss-of-rank-0-in-float32", "loss-replay", "another rank's", with([](Parts& p) {
         p.report = [](Run& run, StepResult& result) {
           if (run.dtype != at::kDouble) loss_of_rank_0(run, result);
         };
       })},
      {"evaluation-mode-never-left", "buffers", "evaluation mode",
       with([](Parts& p) { p.evaluate = staying_in_evaluation_mode; }), "probe-batch-norm"},
      {"evaluation-waits-for-the-others", "evaluation", "wait for ever", with([](Parts& p) {
         p.evaluate = [right = p.evaluate](Run& run, const Batch& batch) {
           at::Tensor flag = at::ones({1});
           run.all_reduce(flag);
           return right(run, batch);
         };
       })},
      {"dropout-of-each-rank-its-own", "gradient-meaning", "forward pass", with([](Parts& p) {
         p.start = [right = p.start](Run& run) {
           right(run);
           run.step_seed += static_cast<uint64_t>(run.rank);
         };
       }),
       "convnet"},
      {"the-same-dropout-every-step", "gradient-meaning", "forward pass", with([](Parts& p) {
         p.rows = [right = p.rows](Run& run, const Batch& batch) {
           run.step = 0;
           return right(run, batch);
         };
       }),
       "convnet"},
      {"buckets-in-another-order-on-one-rank", "run-completes", "different collectives", with([](Parts& p) {
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
