// Wrong strategies with mistakes in combining gradients over ranks.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"

namespace dpbench::wrong {
namespace {

std::vector<at::Tensor> gather_all(Run& run, const at::Tensor& mine) {
  std::vector<at::Tensor> input = {mine.contiguous()};
  std::vector<std::vector<at::Tensor>> output(1);
  for (int r = 0; r < run.world; ++r) output[0].push_back(at::empty_like(input[0]));
  run.group->allgather(output, input)->wait();
  return output[0];
}

using Reduce = std::function<void(Run&, at::Tensor&, size_t)>;

std::function<StrategyInfo()> reducing(const Reduce& reduce) {
  return with([reduce](Parts& parts) { parts.reduce = reduce; });
}

// Makes a strategy that does not reduce the buckets for which `skip` returns true.
std::function<StrategyInfo()> skipping(const std::function<bool(size_t bucket, size_t buckets)>& skip) {
  return with([skip](Parts& parts) {
    const Reduce right = parts.reduce;
    parts.reduce = [=](Run& run, at::Tensor& flat, size_t b) {
      if (!skip(b, run.parts.buckets(run).size())) right(run, flat, b);
    };
  });
}

std::function<StrategyInfo()> reduced_in(at::ScalarType type) {
  return reducing([type](Run& run, at::Tensor& flat, size_t) {
    at::Tensor narrow = flat.to(type);
    run.all_reduce(narrow);
    flat.copy_(narrow.div_(run.world));
  });
}

std::function<StrategyInfo()> masking(const std::function<at::Tensor(const at::Tensor&)>& which) {
  return with([which](Parts& parts) {
    parts.before_reduce = [which, right = parts.before_reduce](Run& run) {
      right(run);
      for (auto& gradient : run.gradients) gradient.masked_fill_(which(gradient), 0);
    };
  });
}

// Makes a reference strategy with `change` applied to its parts. The strategy promises to skip steps with a non-finite
// gradient.
std::function<StrategyInfo()> skipping(const std::function<void(Parts&)>& change) {
  return [made = with(change)] {
    StrategyInfo info = made();
    info.skips_non_finite = true;
    return info;
  };
}

void average_with_next_rank(Run& run, at::Tensor& flat, size_t) {
  const auto all = gather_all(run, flat);
  const auto next = static_cast<size_t>((run.rank + 1) % run.world);
  flat.add_(all[next]).div_(2);
}

void sum_from(Run& run, at::Tensor& flat, int first) {
  const auto all = gather_all(run, flat);
  at::Tensor sum = at::zeros_like(flat);
  for (int i = 0; i < run.world; ++i) sum.add_(all[static_cast<size_t>((first + i) % run.world)]);
  flat.copy_(sum.div_(run.world));
}

void sum_from_own_rank(Run& run, at::Tensor& flat, size_t) { sum_from(run, flat, run.rank); }

void all_but_the_last_element(Run& run, at::Tensor& flat, size_t) {
  at::Tensor most = flat.narrow(0, 0, flat.numel() - 1).clone();
  run.all_reduce(most);
  flat.narrow(0, 0, flat.numel() - 1).copy_(most);
  flat.div_(run.world);
}

// A mistake: reduces only the first MiB of each bucket.
void first_mebibyte(Run& run, at::Tensor& flat, size_t) {
  const int64_t most = std::min<int64_t>(flat.numel(), (1 << 20) / flat.element_size());
  at::Tensor part = flat.narrow(0, 0, most).clone();
  run.all_reduce(part);
  flat.narrow(0, 0, most).copy_(part);
  flat.div_(run.world);
}

void reduce_without_waiting(Run& run, at::Tensor& flat, size_t) {
  flat.div_(run.world);
  std::vector<at::Tensor> tensors = {flat};
  run.group->allreduce(tensors);
}

// A mistake: waits at most 3 ms for the allreduce. This suffices for a rank that is late by 2 ms, but in the scenario
// `late` some ranks are late by 4 ms.
void wait_for_one_late_rank(Run& run, at::Tensor& flat, size_t) {
  flat.div_(run.world);
  std::vector<at::Tensor> tensors = {flat};
  const auto work = run.group->allreduce(tensors);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3);
  while (!work->isCompleted() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  flat = flat.clone();
}

void divided_by(Run& run, at::Tensor& flat, double divisor) {
  run.all_reduce(flat);
  flat.div_(divisor);
}

void deliver_one_step_late(Parts& parts) {
  auto before = std::make_shared<std::map<std::pair<int, size_t>, at::Tensor>>();
  auto guard = std::make_shared<std::mutex>();
  parts.reduce = [before, guard](Run& run, at::Tensor& flat, size_t b) {
    divided_by(run, flat, run.world);
    const at::Tensor fresh = flat.clone();
    const std::lock_guard lock(*guard);
    at::Tensor& kept = (*before)[{run.rank, b}];
    if (run.step > 0 && kept.defined() && kept.sizes() == flat.sizes()) flat.copy_(kept);
    kept = fresh;
  };
}

// A mistake: leaves the checkpointed layer out of the reduction. The layer's gradient appears in a nested backward
// pass, where a reduction hook can miss it.
void skip_checkpointed_layer(Parts& parts) {
  parts.buckets = [right = parts.buckets](Run& run) {
    auto buckets = right(run);
    for (auto& bucket : buckets) std::erase_if(bucket, [&](size_t i) { return run.names[i] == "layer"; });
    std::erase_if(buckets, [](const auto& bucket) { return bucket.empty(); });
    return buckets;
  };
}

// Reduces gradient.contiguous() of each gradient. If the gradient has other strides, contiguous() returns a copy. With
// copy_back = false, a mistake, the reduced copy is lost.
void reduce_contiguously(Run& run, bool copy_back) {
  for (auto& gradient : run.gradients) {
    at::Tensor dense = gradient.contiguous();
    run.all_reduce(dense);
    dense.div_(run.world);
    if (copy_back && !dense.is_same(gradient)) gradient.copy_(dense);
  }
}

std::function<StrategyInfo()> reducing_contiguously(bool copy_back) {
  return with([=](Parts& parts) {
    parts.buckets = [](Run&) { return std::vector<std::vector<size_t>>{}; };
    parts.after_reduce = [=](Run& run) { reduce_contiguously(run, copy_back); };
  });
}

void change_order_each_run(Run& run, at::Tensor& flat, size_t bucket) {
  static std::atomic<int> runs{0};
  if (run.rank == 0 && run.step == 0 && bucket == 0) ++runs;
  at::Tensor first = at::full({1}, runs % run.world, flat.options());
  // The order of addition is the same on all ranks but changes between runs, so only a second run reveals the mistake.
  run.broadcast(first);
  sum_from(run, flat, static_cast<int>(first.item<double>()));
}

}  // namespace

std::vector<Mutant> reduction_mutants() {
  return {
      {"no-reduce", "gradient-meaning", "own gradient", reducing([](Run&, at::Tensor&, size_t) {})},
      {"sum-instead-of-mean", "gradient-meaning", "3 times",
       reducing([](Run& run, at::Tensor& flat, size_t) { run.all_reduce(flat); })},
      {"averaged-twice", "gradient-meaning", "averaged over 3",
       reducing([](Run& run, at::Tensor& flat, size_t) { divided_by(run, flat, run.world * run.world); })},
      {"divided-by-one-too-few", "gradient-meaning", "too few",
       reducing([](Run& run, at::Tensor& flat, size_t) { divided_by(run, flat, run.world - 1); })},
      {"divided-by-two-always", "gradient-meaning", "too few",
       reducing([](Run& run, at::Tensor& flat, size_t) { divided_by(run, flat, 2); })},
      {"last-bucket-not-reduced", "gradient-meaning", "bucket",
       skipping([](size_t b, size_t n) { return b + 1 == n; })},
      {"first-bucket-not-reduced", "gradient-meaning", "bucket", skipping([](size_t b, size_t) { return b == 0; })},
      {"every-other-bucket-not-reduced", "gradient-meaning", "one bucket",
       skipping([](size_t b, size_t) { return b % 2 == 1; })},
      {"not-waited-for", "ranks-agree-parameters", "alone", reducing(reduce_without_waiting)},
      {"one-late-rank-waited-for-not-two", "late-collectives", "scenario late", reducing(wait_for_one_late_rank)},
      {"rank-0-broadcast", "gradient-meaning", "rank 0's own",
       reducing([](Run& run, at::Tensor& flat, size_t) { run.broadcast(flat); })},
      {"rank-2-broadcast", "gradient-meaning", "replica 2", reducing([](Run& run, at::Tensor& flat, size_t) {
         run.broadcast(flat, 2);
         flat.div_(run.world);
       })},
      {"last-rank-left-out", "gradient-meaning", "missing", reducing([](Run& run, at::Tensor& flat, size_t) {
         if (run.rank == run.world - 1) flat.zero_();
         divided_by(run, flat, run.world);
       })},
      {"last-rank-left-out-of-mean", "gradient-meaning", "left out", reducing([](Run& run, at::Tensor& flat, size_t) {
         if (run.rank == run.world - 1) flat.zero_();
         divided_by(run, flat, run.world - 1);
       })},
      {"with-the-next-rank-only", "gradient-meaning", "left out", reducing(average_with_next_rank)},
      {"maximum-instead-of-sum", "gradient-meaning", "maximum",
       reducing([](Run& run, at::Tensor& flat, size_t) { run.all_reduce(flat, c10d::ReduceOp::MAX); })},
      {"last-element-not-reduced", "gradient-meaning", "[8, 5]", reducing(all_but_the_last_element)},
      {"large-bucket-reduced-in-part", "gradient-replay", "wide", reducing(first_mebibyte), "probe-wide"},
      {"reduced-in-float16", "gradient-meaning", "float16", reduced_in(at::kHalf)},
      {"reduced-in-bfloat16", "gradient-meaning", "bfloat16", reduced_in(at::kBFloat16)},
      {"reduced-in-float32", "gradient-meaning", "float32", reduced_in(at::kFloat)},
      {"bucket-unpacked-backwards", "gradient-meaning", "order", reducing([](Run& run, at::Tensor& flat, size_t) {
         divided_by(run, flat, run.world);
         flat.copy_(flat.flip(0).clone());
       })},
      {"each-rank-sums-from-its-own-on", "ranks-agree-gradients", "order", reducing(sum_from_own_rank), "probe-large"},
      {"one-step-late", "gradient-meaning", "late", with(deliver_one_step_late)},
      {"checkpointed-layer-not-reduced", "gradient-meaning", "1 of 2 parameters: layer", with(skip_checkpointed_layer),
       "probe-reused"},
      {"strided-gradients-reduced-in-a-copy", "gradient-meaning", "2 of 3 parameters: kernel, turned",
       reducing_contiguously(/*copy_back=*/false), "probe-strided"},
      {"strided-gradients-copied-back", "", "", reducing_contiguously(/*copy_back=*/true), "probe-strided"},
      {"another-order-each-run", "run-to-run", "order", reducing(change_order_each_run), "probe-large"},
      {"another-order-each-run-as-declared", "", "",
       [] {
         StrategyInfo info = reducing(change_order_each_run)();
         info.repeatable = false;
         return info;
       },
       "probe-large"},
      {"sum-of-exact-gradients", "gradient-exact", "3 times",
       reducing([](Run& run, at::Tensor& flat, size_t) { run.all_reduce(flat); }), "probe-exact"},
      {"global-mean-instead-of-mean-of-means", "gradient-uneven", "over all", with([](Parts& parts) {
         parts.micro_scale = [](Run& run) {  // only unequal sample counts reveal this mistake
           return 1.0 / static_cast<double>(run.micros);
         };
         parts.batch = [](Run& run, const Batch& batch) {
           at::Tensor samples = at::full({1}, batch.samples(), at::kDouble), all = samples.clone();
           run.all_reduce(all);
           const double share = samples.item<double>() * run.world / all.item<double>();
           run.parts.micro_scale = [share](Run& r) { return share / static_cast<double>(r.micros); };
           return batch;
         };
       })},
      {"mean-of-means-instead-of-global-mean", "gradient-uneven", "ranks' means",
       with([](Parts&) {}, Gradient::global_mean)},
      {"mean-instead-of-declared-sum", "gradient-meaning", "averaged over 3", with([](Parts&) {}, Gradient::sum)},
      {"NaN-masked-before-the-reduction", "non-finite", "masked", with([](Parts& parts) {
         const auto right = parts.before_reduce;
         parts.before_reduce = [right](Run& run) {
           right(run);
           for (auto& gradient : run.gradients) gradient = gradient.nan_to_num(0, 0, 0);
         };
       })},
      {"NaN-only-masked", "non-finite", "NaN", masking([](const at::Tensor& g) { return g.isnan(); })},
      {"infinity-only-masked", "non-finite", "infinity", masking([](const at::Tensor& g) { return g.isinf(); })},
      {"non-finite-step-applied", "non-finite-skipped", "w0, ", skipping([](Parts&) {})},
      {"skips-by-its-own-gradient", "non-finite-skipped", "rank 0, step 2, scenario poison", skipping([](Parts& parts) {
         parts.before_reduce = [right = parts.before_reduce](Run& run) {
           right(run);
           run.own_finite = run.all_finite();
         };
         parts.update = [right = parts.update](Run& run) {
           if (run.own_finite) right(run);
         };
       })},
      {"not-reduced-from-step-4-on", "gradient-later", "own gradient", with([](Parts& parts) {
         parts.reduce = [right = parts.reduce](Run& run, at::Tensor& flat, size_t b) {
           if (run.step < 4) right(run, flat, b);
         };
       })},
      {"a-rank-apart-from-step-4-on", "ranks-agree-gradients", "step 4, scenario twenty", with([](Parts& parts) {
         parts.after_reduce = [](Run& run) {
           for (auto& gradient : run.gradients)
             if (run.step >= 4 && run.rank > 0) gradient.mul_(0.5);
         };
       })},
  };
}

}  // namespace dpbench::wrong
