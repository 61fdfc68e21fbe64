// Mistakes in the reduction, accumulation and clipping of sharded gradients (FSDP, ZeRO, HSDP). Also contains correct
// variants.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/sharded/sharded_change.h"

namespace dpbench::wrong {
namespace sharded {
namespace {

// Calls visit() for each parameter of a unit during the reduction of the unit's gradients.
template <class Visit>
void each_reduction(ShardedRun& run, const ShardedUnit& unit, const Visit& visit) {
  for (const size_t p : unit.parameters) {
    ShardedParameter& parameter = run.parameters[p];
    if (!parameter.reduction.work) continue;
    visit(parameter, parameter.reduction);
    parameter.reduction = {};
  }
}

void copy_shards_too_early(ShardedParts& parts) {
  parts.end_reduce = [](ShardedRun& run, ShardedUnit& unit) {
    each_reduction(run, unit, [&](ShardedParameter& parameter, const Transfer& reduction) {
      run.parts.add(run, parameter, reduction.output.clone());
      reduction.work->wait();
    });
  };
}

// A mistake: copies the sums over replicas before the allreduce has ended.
void copy_sums_over_replicas_too_early(ShardedParts& parts) {
  parts.over_replicas = [](ShardedRun& run) {
    for (ShardedParameter& parameter : run.parameters) {
      if (!parameter.gradient.defined()) continue;
      std::vector<at::Tensor> sums = {parameter.gradient};
      const WorkPtr work = run.replica.group->allreduce(sums);
      parameter.gradient = sums[0].clone();
      work->wait();
    }
  };
}

// A mistake: waits for the previous reduction instead of the current one.
void wait_on_another_handle(ShardedParts& parts) {
  parts.end_reduce = [](ShardedRun& run, ShardedUnit& unit) {
    each_reduction(run, unit, [&](ShardedParameter& parameter, const Transfer& reduction) {
      run.works.push_back(reduction.work);
      run.works[run.works.size() > 1 ? run.works.size() - 2 : 0]->wait();
      run.parts.add(run, parameter, reduction.output.clone());
    });
  };
}

void reduce_before_filling(ShardedParts& parts) {
  parts.begin_reduce = [right = parts](ShardedRun& run, ShardedUnit& unit) {
    ShardedUnit all_but_one = unit, one = unit;
    if (unit.parameters.empty()) return;
    all_but_one.parameters.pop_back();
    one.parameters = {unit.parameters.back()};
    right.begin_reduce(run, all_but_one);
    ShardedParameter& late = run.parameters[one.parameters[0]];
    if (!late.whole.requires_grad()) return;
    late.used = true;
    Transfer& reduction = late.reduction;
    reduction.input = at::zeros_like(run.padded(late.whole));
    reduction.output = at::empty_like(late.shard);
    reduction.work = begin_reduce_scatter(*run.shard.group, reduction.output, reduction.input);
    reduction.work->wait();
    reduction.input.copy_(right.filled(run, late));
    late.whole.mutable_grad().reset();
  };
}

// Returns the first two parameters of a unit that have one shape and a gradient; nothing if there are none.
std::vector<size_t> pair_of_one_shape(const ShardedRun& run, const ShardedUnit& unit) {
  for (const size_t p : unit.parameters)
    for (const size_t q : unit.parameters) {
      const at::Tensor &one = run.parameters[p].whole, &other = run.parameters[q].whole;
      if (p < q && one.sizes() == other.sizes() && one.grad().defined() && other.grad().defined()) return {p, q};
    }
  return {};
}

// A mistake: one rank swaps the gradients of two parameters that have the same shape.
void place_gradients_by_arrival(ShardedParts& parts) {
  parts.begin_reduce = [right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
    const auto pair = pair_of_one_shape(run, unit);
    if (run.rank == 1 && !pair.empty())
      std::swap(run.parameters[pair[0]].whole.mutable_grad(), run.parameters[pair[1]].whole.mutable_grad());
    right(run, unit);
  };
}

void keep_the_piece_of_rank_0(ShardedParts& parts) {
  parts.begin_reduce = [right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
    right(run, unit);
    for (const size_t p : unit.parameters) {
      Transfer& reduction = run.parameters[p].reduction;
      if (!reduction.work) continue;
      reduction.work->wait();
      run.sum(reduction.input, run.shard.group);
      reduction.output.copy_(run.piece(reduction.input, 0));
    }
  };
}

// A mistake: after each micro-batch, sums the accumulated gradient over replicas, instead of the micro-batch's gradient
// alone.
void sum_accumulated_over_replicas(ShardedParts& parts) {
  parts.add = [right = parts.add](ShardedRun& run, ShardedParameter& parameter, const at::Tensor& sum) {
    right(run, parameter, sum);
    run.sum(parameter.gradient, run.replica.group);
  };
  parts.over_replicas = [](ShardedRun&) {};
}

void sum_each_micro_batch_over_replicas(ShardedParts& parts) {
  parts.add = [right = parts.add](ShardedRun& run, ShardedParameter& parameter, const at::Tensor& sum) {
    run.sum(sum, run.replica.group);
    right(run, parameter, sum);
  };
  parts.over_replicas = [](ShardedRun&) {};
}

void keep_the_first_micro_batch(ShardedParts& parts) {
  parts.begin_reduce = [right = parts](ShardedRun& run, ShardedUnit& unit) {
    if (run.micro > 0 || run.micros == 1) return right.begin_reduce(run, unit);
    for (const size_t p : unit.parameters) {
      ShardedParameter& parameter = run.parameters[p];
      if (!parameter.whole.grad().defined()) continue;
      parameter.used = true;
      right.add(run, parameter, run.piece(right.filled(run, parameter), run.shard.rank));
      parameter.whole.mutable_grad().reset();
    }
  };
}

double own_squares(const ShardedRun& run) {
  double sum = 0;
  for (const ShardedParameter& parameter : run.parameters)
    if (parameter.gradient.defined()) sum += parameter.gradient.to(at::kDouble).square().sum().item<double>();
  return sum;
}

double squares_over(const ShardedRun& run, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  at::Tensor sum = at::full({1}, own_squares(run), at::kDouble);
  run.sum(sum, group);
  return sum.item<double>();
}

// A mistake: each rank sums the squares of all ranks' rows, then the ranks add these equal sums.
double squares_of_whole_gradients(ShardedRun& run) {
  at::Tensor sum = at::zeros({1}, at::kDouble);
  for (ShardedParameter& parameter : run.parameters)
    if (parameter.gradient.defined())
      sum += run.parts.reported(run, parameter, parameter.gradient).to(at::kDouble).square().sum();
  run.sum(sum, run.shard.group);
  return sum.item<double>();
}

void clip_before_replicas_are_summed(ShardedParts& parts) {
  const ShardedParts right = parts;
  parts.over_replicas = [right](ShardedRun& run) {
    if (!run.clip_norm) right.over_replicas(run);
  };
  parts.squares = [right](ShardedRun& run) {
    const double squares = right.squares(run);
    right.over_replicas(run);
    return squares;
  };
}

Change multiplied_by(const std::function<double(const ShardedRun&)>& factor) {
  return [=](ShardedParts& parts) {
    parts.filled = [=, right = parts.filled](ShardedRun& run, ShardedParameter& parameter) {
      return right(run, parameter).mul_(factor(run));
    };
  };
}

void lose_the_last_rows(ShardedParts& parts) {
  parts.filled = [right = parts.filled](ShardedRun& run, ShardedParameter& parameter) {
    const at::Tensor all = right(run, parameter);
    const int64_t kept = parameter.rows / run.shard.size * run.shard.size;
    if (kept > 0) all.narrow(0, kept, all.size(0) - kept).zero_();
    return all;
  };
}

void clear_no_shards(ShardedParts& parts) {
  parts.clear = [](ShardedRun& run) {
    for (ShardedParameter& parameter : run.parameters) parameter.whole.mutable_grad().reset();
  };
}

void drop_the_gradient_of_the_last_use(ShardedParts& parts) {
  parts.need = [right = parts.need](ShardedRun& run, size_t unit, int direction) {
    right(run, unit, direction);
    if (direction > 0 || unit + 1 == run.units.size()) return;
    for (const size_t p : run.shared.parameters) run.parameters[p].whole.mutable_grad().reset();
  };
}

// A mistake: rounds the gradients to bfloat16 for the reduction, except in the checks in float64.
void sum_in_bfloat16(ShardedParts& parts) {
  parts.begin_reduce = [right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
    right(run, unit);
    for (const size_t p : unit.parameters) {
      Transfer& reduction = run.parameters[p].reduction;
      if (!reduction.work || run.dtype == at::kDouble) continue;
      reduction.work->wait();
      at::Tensor narrow = reduction.input.to(at::kBFloat16), piece = reduction.output.to(at::kBFloat16);
      begin_reduce_scatter(*run.shard.group, piece, narrow)->wait();
      reduction.output.copy_(piece);
    }
  };
}

Change reduced_in_another_order_on(int rank) {
  return [rank](ShardedParts& parts) {
    parts.begin_reduce = [rank, right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
      ShardedUnit reversed = unit;
      if (run.rank == rank) std::ranges::reverse(reversed.parameters);
      right(run, reversed);
    };
  };
}

// A mistake: one rank reduces two parameters of the same shape in the opposite order. Its collectives have the same
// sizes as those of the other ranks.
void reduce_a_pair_in_another_order(ShardedParts& parts) {
  parts.begin_reduce = [right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
    ShardedUnit other = unit;
    if (const auto pair = pair_of_one_shape(run, unit); run.rank == 1 && !pair.empty())
      std::swap(*std::ranges::find(other.parameters, pair[0]), *std::ranges::find(other.parameters, pair[1]));
    right(run, other);
  };
}

bool uses(const ShardedRun& run, const ShardedUnit& unit) {
  return std::ranges::any_of(unit.parameters, [&](size_t p) { return run.parameters[p].whole.grad().defined(); });
}

void reduce_only_units_that_this_rank_used(ShardedParts& parts) {
  parts.begin_reduce = [right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
    if (uses(run, unit)) right(run, unit);
  };
}

void count_every_unit_as_used(ShardedParts& parts) {
  parts.begin_reduce = [right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
    right(run, unit);
    for (const size_t p : unit.parameters) run.parameters[p].used = run.parameters[p].whole.requires_grad();
  };
}

void keep_only_the_last_micro_batch(ShardedParts& parts) {
  parts.add = [](ShardedRun&, ShardedParameter& parameter, const at::Tensor& sum) { parameter.gradient = sum; };
}

void reduce_over_the_replicas(ShardedParts& parts) {
  parts.begin_reduce = [right = parts.begin_reduce](ShardedRun& run, ShardedUnit& unit) {
    std::swap(run.shard.group, run.replica.group);
    right(run, unit);
    std::swap(run.shard.group, run.replica.group);
  };
}

}  // namespace
}  // namespace sharded

std::vector<Mutant> sharded_gradient_mutants() {
  using namespace sharded;
  const auto clipping_by = [](const std::function<double(ShardedRun&)>& squares) {
    return made([=](ShardedParts& parts) { parts.squares = squares; });
  };
  return {
      {"shard-copied-out-before-the-reduction-is-done", "late-collectives", "has ended", made(copy_shards_too_early)},
      on_mesh({"copied-out-before-the-sum-over-replicas-is-done", "late-collectives", "has ended",
               made(copy_sums_over_replicas_too_early)}),
      {"wait-on-the-handle-of-another-reduction", "late-collectives", "has ended", made(wait_on_another_handle)},
      {"reduced-before-the-buffer-is-filled", "gradient-meaning", "written back", made(reduce_before_filling), "gpt",
       2},
      {"gradients-placed-in-the-order-of-arrival", "gradient-meaning", "bucket|another order",
       made(place_gradients_by_arrival), "gpt", 2},
      {"every-rank-keeps-the-piece-of-rank-0", "gradient-meaning", "rows of rank 1 of 3: |rows of rank 0",
       made(keep_the_piece_of_rank_0)},
      on_mesh({"accumulated-shards-summed-over-replicas-again", "accumulation", "the shares",
               made(sum_accumulated_over_replicas)}),
      {"shards-of-the-first-micro-batch-not-reduced", "accumulation",
       "rows of rank 0 of 3: ", made(keep_the_first_micro_batch)},
      {"replicated-rows-counted-once-for-each-rank", "clip", "added once", clipping_by(squares_of_whole_gradients)},
      on_mesh({"squares-of-replicas-added", "clip", "added once for each rank of the axis dp",
               clipping_by([](ShardedRun& run) { return squares_over(run, run.mesh.group()); })}),
      {"clipped-by-the-norm-of-its-own-shard", "clip", "own rows",
       clipping_by([](ShardedRun& run) { return own_squares(run); })},
      on_mesh({"clipped-before-replicas-are-summed", "clip", "before the sum over the axis dp",
               made(clip_before_replicas_are_summed)}),
      {"shards-summed-not-averaged", "gradient-meaning", "summed over 3",
       made(multiplied_by([](const ShardedRun& run) { return run.shard.size; }))},
      on_mesh({"divided-by-the-shard-axis-only", "gradient-meaning", "2 ranks|axis",
               made(multiplied_by([](const ShardedRun& run) { return run.replica.size; }))}),
      on_mesh({"shards-not-summed-over-replicas", "gradient-meaning", "the shares 0.25, 0.25, 0, 0",
               made([](ShardedParts& parts) { parts.over_replicas = [](ShardedRun&) {}; })}),
      {"rows-lost-that-do-not-divide", "gradient-meaning", "rows of rank 2 of 3: ", made(lose_the_last_rows)},
      {"gradient-shards-not-cleared", "gradient-meaning", "not zeroed", made(clear_no_shards)},
      {"gradient-of-the-last-use-dropped", "gradient-meaning", "model.embed_tokens.weight",
       made(drop_the_gradient_of_the_last_use), "gpt", 2},
      {"shards-summed-in-bfloat16", "gradient-replay", "bfloat16", made(sum_in_bfloat16)},
      {"reduced-in-another-order-on-one-rank", "run-completes", "different collectives",
       made(reduced_in_another_order_on(1))},
      on_mesh({"reduced-in-another-order-on-one-rank-of-a-mesh", "run-completes", "rank 3 \"even, axis shard",
               made(reduced_in_another_order_on(3))}),
      {"pair-of-one-shape-reduced-in-another-order", "gradient-meaning", "rank 1 |bucket",
       made(reduce_a_pair_in_another_order), "gpt", 2},
      {"only-units-reduced-that-this-rank-used", "run-completes", "different collectives",
       made(reduce_only_units_that_this_rank_used), "probe-optional"},
      {"unit-that-no-rank-used-stepped-with-zeros", "trajectory", "not update", made(count_every_unit_as_used),
       "probe-optional"},
      {"only-the-last-micro-batch-kept", "accumulation", "last micro-batch|overwrote",
       made(keep_only_the_last_micro_batch)},
      on_mesh(
          {"reduced-over-the-axis-of-replicas", "gradient-meaning", "another axis", made(reduce_over_the_replicas)}),
      {"reduced-in-the-last-micro-batch-only", "", "",
       made([](ShardedParts& parts) { parts.reduces = [](ShardedRun& run) { return run.micro + 1 == run.micros; }; },
            {.reduces_each_micro_batch = false})},
      on_mesh({"each-micro-batch-summed-over-replicas", "", "",
               [] {
                 StrategyInfo info = made(sum_each_micro_batch_over_replicas)();
                 info.traffic = {};
                 return info;
               }}),
  };
}

}  // namespace dpbench::wrong
