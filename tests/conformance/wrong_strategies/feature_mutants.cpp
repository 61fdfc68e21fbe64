// Mistakes in ddp's features beyond the plain mean, in local SGD and in sharded optimizers. Also contains a correct
// version of each feature, which must pass.
#include <map>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/mutant.h"
#include "workloads/base/error.h"
#include "workloads/layers/batch_norm.h"

namespace dpbench::wrong {
namespace {

using Promise = std::function<void(StrategyInfo&)>;
using Change = std::function<void(Parts&)>;

std::function<StrategyInfo()> promising(const Promise& promise, const Change& change) {
  return [=] {
    StrategyInfo info = with(change)();
    promise(info);
    return info;
  };
}

// --- Mistakes in gradient compression

void in_half(StrategyInfo& info) { info.reduced_in = at::kHalf; }

Change compressed(at::ScalarType type, double divisor_of_world) {
  return [=](Parts& parts) {
    parts.reduce = [=](Run& run, at::Tensor& flat, size_t) {
      at::Tensor narrow = flat.to(type).div_(std::pow(run.world, divisor_of_world));
      run.all_reduce(narrow);
      flat.copy_(narrow);
    };
  };
}

// --- Mistakes in synchronised BatchNorm

void synchronised(StrategyInfo& info) {
  info.buffers = Buffers::synchronised;
  info.allows_no_samples = false;
}

using ReduceSums =
    // Carries out one reduction of a BatchNorm layer, possibly with a mistake. call: number of the layer's reduction,
    // even in the forward pass, odd in the backward pass.
    std::function<void(Run&, at::Tensor& sums, int call)>;

Change norms_reducing(const ReduceSums& reduce) {
  return [=](Parts& parts) {
    parts.sync_buffers = [](Run&) {};
    parts.start = [=, right = parts.start](Run& run) {
      right(run);
      for (const auto& module : run.model->modules())
        if (const auto norm = std::dynamic_pointer_cast<BatchNorm>(module))
          norm->set_reduce(
              [=, &run, calls = std::make_shared<int>(0)](at::Tensor& sums) { reduce(run, sums, (*calls)++); });
    };
  };
}

void right_sums(Run& run, at::Tensor& sums, int) { run.all_reduce(sums); }

// A mistake in synchronised BatchNorm: gives each rank's mean and mean square equal weight, regardless of its number of
// samples.
void weight_ranks_equally(Run& run, at::Tensor& sums, int call) {
  if (call % 2 == 0) sums.div_(sums[-1].clone());
  run.all_reduce(sums);
  if (call % 2 == 0) sums.mul_(4);  // multiplies by 4, the number of samples per rank in the scenario `even`
}

// A mistake: rounds each rank's gradients to bfloat16 before they are summed. The checks in float64 cannot detect it.
void round_to_bfloat16(Parts& parts) {
  parts.reduce = [right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
    if (run.dtype != at::kDouble) flat.copy_(flat.to(at::kBFloat16));
    right(run, flat, bucket);
  };
}

// --- Mistakes in local SGD, which averages the parameters after every second step

void use_local_sgd(StrategyInfo& info) {
  info.gradient = Gradient::local;
  info.buffers = Buffers::local;
  info.average_every = 2;
  info.allows_no_samples = false;
}

Change averaging(const std::function<void(Run&, at::Tensor& leaf)>& average) {
  return [=](Parts& parts) {
    parts.sync_buffers = [](Run&) {};
    parts.before_reduce = [](Run& run) {
      run.gradients.clear();
      for (const auto& leaf : run.leaves) run.gradients.push_back(leaf.grad());
    };
    parts.reduce = [](Run&, at::Tensor&, size_t) {};
    parts.update = [=, right = parts.update](Run& run) {
      right(run);
      if (run.step % 2 == 0) return;
      for (auto& leaf : run.leaves) {
        at::Tensor value = leaf.detach().contiguous();
        average(run, value);
        leaf.copy_(value);
      }
    };
  };
}

void right_average(Run& run, at::Tensor& leaf) { run.all_reduce(leaf.div_(run.world)); }

// A mistake: counts steps from the strategy's construction, so after a resume between two averages, it averages in the
// wrong steps. Not usable with a scheduled learning rate, which would follow the same count.
void average_by_own_count(Parts& parts) {
  averaging(right_average)(parts);
  parts.start = [start = parts.start](Run& run) {
    start(run);
    run.parts.update = [count = std::make_shared<int64_t>(0), update = run.parts.update](Run& again) {
      const int64_t step = std::exchange(again.step, (*count)++);
      update(again);
      again.step = step;
    };
  };
}

// --- Mistakes in a sharded optimizer, which leave some elements without an update

// Undoes the optimizer step in every element i of a tensor of n elements for which keep(run, i, n) is false.
Change stepping_where(const std::function<bool(Run&, int64_t i, int64_t n)>& keep,
                      std::vector<at::Tensor> Run::* kept) {
  return [=](Parts& parts) {
    parts.update = [=, right = parts.update](Run& run) {
      std::vector<at::Tensor> before;
      for (const auto& tensor : run.*kept) before.push_back(tensor.detach().clone());
      right(run);
      for (size_t t = 0; t < before.size(); ++t) {
        const int64_t n = before[t].numel();
        at::Tensor mask = at::empty({n}, at::kBool);
        for (int64_t i = 0; i < n; ++i) mask.data_ptr<bool>()[i] = keep(run, i, n);
        at::Tensor now = (run.*kept)[t].detach();
        now.copy_(at::where(mask.view(now.sizes()), now, before[t]));
      }
    };
  };
}

bool in_own_piece(Run& run, int64_t i, int64_t n) { return i * run.world / n == run.rank; }
// True if element i of n is in some rank's piece of n / world elements. The mistake: the last n % world elements are in
// no piece, so they are never updated.
bool in_a_full_piece(Run& run, int64_t i, int64_t n) { return i < n / run.world * run.world; }

// --- Mistakes with buckets that contain unused parameters

// Leaves buckets for which `idle` returns true out of the reduction. This is a mistake unless no rank used any
// parameter of these buckets.
Change omitting_buckets(const std::function<bool(Run&, const std::vector<size_t>& bucket)>& idle) {
  return [=](Parts& parts) {
    parts.buckets = [=, right = parts.buckets](Run& run) {
      std::vector<std::vector<size_t>> kept;
      for (const auto& bucket : right(run))
        if (!idle(run, bucket)) kept.push_back(bucket);
      return kept;
    };
  };
}

bool this_rank_used_none(Run& run, const std::vector<size_t>& bucket) {
  for (const size_t i : bucket)
    if (run.leaves[i].grad().defined()) return false;
  return true;
}

// A mistake: takes a bucket for unused if no rank used the parameter that precedes one of the bucket's parameters.
bool next_to_unused(Run& run, const std::vector<size_t>& bucket) {
  for (const size_t i : bucket)
    if (i > 0 && !run.gradients[i - 1].defined()) return true;
  return false;
}

// --- Mistakes in an optimizer step that runs within the backward pass

void stepped_before_it_is_reduced(Parts& parts) {
  parts.reduce = [right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
    if (bucket == 0)
      for (size_t i = run.leaves.size(); i-- > 0;)
        if (run.gradients[i].defined()) {
          run.leaves[i].sub_(run.leaves[i].grad() * learning_rate(run.workload.optimizer(), run.step));
          break;
        }
    right(run, flat, bucket);
  };
}

void last_bucket_never_stepped(Parts& parts) {
  parts.update = [right = parts.update](Run& run) {
    const at::Tensor first = run.gradients[0];
    run.gradients[0] = at::Tensor();
    right(run);
    run.gradients[0] = first;
  };
}

// --- Mistakes with the parameter "b1", which each rank must keep to itself and never synchronise

void declare_own_b1(StrategyInfo& info) { info.own = {"b1"}; }

bool is_b1(Run& run, size_t i) { return run.names[i] == "b1"; }

void keep_b1(Parts& parts, bool at_the_start, bool in_steps) {
  if (at_the_start)
    parts.start = [](Run& run) {
      for (const auto& item : run.model->named_parameters())
        if (item.key() != "b1") run.broadcast(item.value().detach());
    };
  if (in_steps)
    parts.buckets = [](Run& run) {
      std::vector<std::vector<size_t>> result;
      for (size_t i = 0; i < run.leaves.size(); ++i)
        if (!is_b1(run, i) && run.gradients[i].defined()) result.push_back({i});
      return result;
    };
  parts.start = [start = parts.start](Run& run) {
    if (run.clip_norm) throw UsageError("each rank would find another norm");
    start(run);
  };
}

// --- Mistakes in reducing float16 and bfloat16 gradients

Change reducing_halves(const std::function<void(Run&, at::Tensor& flat)>& reduce) {
  return [=](Parts& parts) {
    parts.reduce = [=, right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
      flat.scalar_type() == at::kHalf || flat.scalar_type() == at::kBFloat16 ? reduce(run, flat)
                                                                             : right(run, flat, bucket);
    };
  };
}

// --- Mistakes with a static graph (the set of used parameters is recorded once)

Change reducing_when(const std::function<bool(int64_t step)>& when) {
  return [=](Parts& parts) {
    parts.reduce = [=, right = parts.reduce](Run& run, at::Tensor& flat, size_t bucket) {
      if (when(run.step)) right(run, flat, bucket);
    };
  };
}

}  // namespace

std::vector<Mutant> feature_mutants() {
  const std::string norm = "probe-batch-norm", adam = "probe-mlp";
  const Promise none = [](StrategyInfo&) {};
  return {
      {"hook-in-bfloat16-instead-of-float16", "gradient-meaning", "bfloat16",
       promising(in_half, compressed(at::kBFloat16, 1))},
      {"hook-without-the-division", "gradient-meaning", "3 times", promising(in_half, compressed(at::kHalf, 0))},
      {"hook-divides-and-so-does-the-reducer", "gradient-meaning", "averaged over 3",
       promising(in_half, compressed(at::kHalf, 2))},
      {"hook-sums-before-the-division", "reduction-range", "range",
       promising(in_half,
                 [](Parts& parts) {
                   parts.reduce = [](Run& run, at::Tensor& flat, size_t) {
                     at::Tensor narrow = flat.to(at::kHalf);
                     run.all_reduce(narrow);
                     flat.copy_(narrow.div_(run.world));
                   };
                 })},
      {"hook-not-announced", "gradient-meaning", "float16", promising(none, compressed(at::kHalf, 1))},
      {"mean-of-all-instead-of-active", "empty-shard", "0.666667 times",
       promising([](StrategyInfo& info) { info.gradient = Gradient::mean_of_active; }, [](Parts&) {})},
      {"statistics-not-shared", "output-value", "BatchNorm", promising(synchronised, [](Parts&) {}), norm},
      {"statistics-shared-in-the-forward-pass-only", "gradient-meaning", "backward",
       promising(synchronised, norms_reducing([](Run& run, at::Tensor& sums, int call) {
                   if (call % 2 == 0) run.all_reduce(sums);
                 })),
       norm},
      {"statistics-weighted-by-rank", "gradient-uneven", "BatchNorm",
       promising(synchronised, norms_reducing(weight_ranks_equally)), norm},
      {"rounded-on-a-model-without-statistics", "gradient-replay", "bfloat16",
       promising(synchronised, round_to_bfloat16)},
      {"first-step-of-a-static-graph-not-reduced", "gradient-meaning", "not reduced",
       promising(none, reducing_when([](int64_t step) { return step > 0; }))},
      {"static-graph-reduced-only-once", "gradient-meaning", "not reduced",
       promising(none, reducing_when([](int64_t step) { return step == 0; }))},
      {"local-buffers-broadcast", "buffers", "overwritten",
       promising([](StrategyInfo& info) { info.buffers = Buffers::local; }, [](Parts&) {}), norm},
      {"local-buffers-averaged", "buffers", "mixed",
       promising([](StrategyInfo& info) { info.buffers = Buffers::local; },
                 [](Parts& parts) {
                   parts.sync_buffers = [](Run& run) {
                     for (auto& item : run.model->named_buffers()) {
                       if (!item.value().is_floating_point()) continue;
                       run.all_reduce(item.value());
                       item.value().div_(run.world);
                     }
                   };
                 }),
       norm},
      {"bucket-left-out-that-another-rank-used", "run-completes", "collectives",
       promising(none, omitting_buckets(this_rank_used_none)), "probe-branch"},
      {"bucket-left-out-for-a-neighbour", "gradient-meaning", "not reduced",
       promising(none, omitting_buckets(next_to_unused)), "probe-unused"},
      {"stepped-before-its-bucket-is-reduced", "ranks-agree-parameters", "alone",
       promising(none, stepped_before_it_is_reduced)},
      {"last-bucket-never-stepped", "optimizer-replay", "not updated", promising(none, last_bucket_never_stepped)},
      {"own-parameter-sent-at-the-start", "initial-broadcast", "b1",
       promising(declare_own_b1, [](Parts& p) { keep_b1(p, false, true); })},
      {"own-parameter-reduced", "gradient-meaning", "declared",
       promising(declare_own_b1, [](Parts& p) { keep_b1(p, true, false); })},
      {"float16-gradients-reduced-in-bfloat16", "gradient-replay", "bfloat16",
       promising(none, reducing_halves([](Run& run, at::Tensor& flat) {
                   at::Tensor narrow = flat.to(at::kBFloat16);
                   run.all_reduce(narrow);
                   flat.copy_(narrow.div_(run.world));
                 })),
       "probe-mixed"},
      {"half-gradients-not-reduced", "gradient-replay", "own gradient",
       promising(none, reducing_halves([](Run&, at::Tensor&) {})), "probe-mixed"},
      {"never-averaged", "ranks-agree-parameters", "not averaged",
       promising(use_local_sgd, averaging([](Run&, at::Tensor&) {}))},
      {"averaged-and-gradients-too", "gradient-meaning", "ranks' means",
       promising(use_local_sgd,
                 [](Parts& parts) {
                   const auto reduce = parts.reduce;
                   averaging(right_average)(parts);
                   parts.reduce = reduce;
                 })},
      {"average-without-the-last-rank", "optimizer-replay", "rank 2",
       promising(use_local_sgd, averaging([](Run& run, at::Tensor& leaf) {
                   if (run.rank == run.world - 1) leaf.zero_();
                   run.all_reduce(leaf.div_(run.world - 1));
                 }))},
      {"averaged-a-step-late", "ranks-agree-parameters", "not averaged",
       promising([](StrategyInfo& info) { use_local_sgd(info), info.average_every = 3; }, averaging(right_average))},
      {"averages-counted-from-the-resumption", "ranks-agree-parameters", "not averaged",
       promising(use_local_sgd, average_by_own_count), "probe-mlp"},
      {"piece-not-gathered", "ranks-agree-parameters", "alone",
       promising(none, stepping_where(in_own_piece, &Run::leaves))},
      {"remainder-of-the-last-piece-not-stepped", "optimizer-replay", "not updated",
       promising(none, stepping_where(in_a_full_piece, &Run::leaves))},
      {"state-of-its-own-piece-only", "ranks-agree-state", "another state",
       promising(none, stepping_where(in_own_piece, &Run::momenta)), adam},
  };
}

std::vector<Mutant> right_features() {
  return {
      {"compressed-to-float16", "", "", promising(in_half, compressed(at::kHalf, 1)), "probe-mlp"},
      {"norms-over-all-ranks", "", "", promising(synchronised, norms_reducing(right_sums)), "probe-batch-norm"},
      {"norms-over-all-ranks-without-norms", "", "", promising(synchronised, [](Parts&) {}), "probe-mlp"},
      {"own-parameter-kept", "", "", promising(declare_own_b1, [](Parts& p) { keep_b1(p, true, true); })},
      {"half-gradients-divided-before-the-sum", "", "",
       promising([](StrategyInfo&) {},
                 reducing_halves([](Run& run, at::Tensor& flat) { run.all_reduce(flat.div_(run.world)); })),
       "probe-mixed"},
      {"averaged-every-second-step", "", "", promising(use_local_sgd, averaging(right_average)), "probe-mlp"},
  };
}

}  // namespace dpbench::wrong
