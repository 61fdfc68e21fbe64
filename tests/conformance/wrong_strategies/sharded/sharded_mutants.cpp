// Mistakes of strategies that shard parameters and optimizer state (FSDP, ZeRO, HSDP): in gathering, freeing, stepping,
// restoring. Also contains correct variants of the sharded reference.
#include <functional>
#include <limits>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/native/Resize.h>

#include "tests/conformance/wrong_strategies/sharded/sharded_change.h"

namespace dpbench::wrong {
namespace sharded {
namespace {

// A mistake: gathers all units into one buffer, and starts the next gather before the unit is copied out of the buffer.
void reuse_the_gather_buffer(ShardedParts& parts) {
  const auto begin = [](ShardedRun& run, ShardedUnit& unit) {
    constexpr int64_t elements = 1 << 16;
    int64_t offset = 0;
    for (const size_t p : unit.parameters) {
      ShardedParameter& parameter = run.parameters[p];
      if (parameter.is_whole || parameter.gather.output.defined()) continue;
      if (run.kept.empty()) run.kept.push_back(at::empty({elements}, parameter.shard.options()));
      std::vector<int64_t> sizes = parameter.shard.sizes().vec();
      sizes[0] *= run.shard.size;
      const int64_t count = parameter.shard.numel() * run.shard.size;
      parameter.gather = {
          .work = {}, .input = parameter.shard, .output = run.kept[0].narrow(0, offset, count).view(sizes)};
      parameter.gather.work = begin_allgather(*run.shard.group, parameter.gather.output, parameter.gather.input);
      parameter.gather.work->wait();
      offset += count;
    }
  };
  parts.need = [=](ShardedRun& run, size_t unit, int direction) {
    begin(run, run.units[unit]);
    begin(run, run.neighbour(run.units[unit], direction));
    run.parts.end_gather(run, run.units[unit]);
  };
}

// A mistake: copies a unit out of the gather's output before waiting for the gather. Until the gather ends the output
// holds NaN.
void use_units_before_their_gather_has_ended(ShardedParts& parts) {
  parts.begin_gather = [](ShardedRun& run, ShardedUnit& unit) {
    for (const size_t p : unit.parameters) {
      ShardedParameter& parameter = run.parameters[p];
      Transfer& gather = parameter.gather;
      if (parameter.is_whole || gather.output.defined()) continue;
      gather.input = parameter.shard;
      gather.output = run.empty_whole(gather.input).fill_(std::numeric_limits<double>::quiet_NaN());
      gather.work = begin_allgather(*run.shard.group, gather.output, gather.input);
    }
  };
  parts.end_gather = [](ShardedRun& run, ShardedUnit& unit) {
    for (const size_t p : unit.parameters) {
      ShardedParameter& parameter = run.parameters[p];
      if (parameter.is_whole) continue;
      const at::Tensor rows = run.parts.joined(run, parameter, parameter.gather.output);
      parameter.whole.variable_data().copy_(rows.view_as(parameter.whole));
      parameter.gather.work->wait();
      parameter.gather = {};
      parameter.is_whole = true;
    }
  };
}

void step_with_the_piece_of_rank_0(ShardedParts& parts) {
  parts.update = [right = parts](ShardedRun& run, ShardedParameter& parameter) {
    const at::Tensor mine = parameter.gradient;
    parameter.gradient = run.piece(right.reported(run, parameter, mine), 0);
    right.update(run, parameter);
    parameter.gradient = mine;
  };
}

// A mistake: the optimizer step of a padded shard uses the last rows of the gradient instead of the first.
void step_with_the_gradients_of_neighbours(ShardedParts& parts) {
  parts.update = [right = parts.update](ShardedRun& run, ShardedParameter& parameter) {
    const int64_t padding = parameter.shard.size(0) - run.own_rows(parameter);
    const at::Tensor mine = std::exchange(parameter.gradient, parameter.gradient.roll(-padding, 0));
    right(run, parameter);
    parameter.gradient = mine;
  };
}

void never_step_one_unit(ShardedParts& parts) {
  parts.update = [right = parts.update](ShardedRun& run, ShardedParameter& parameter) {
    for (const size_t p : run.units[1].parameters)
      if (&run.parameters[p] == &parameter) return;
    right(run, parameter);
  };
}

void free_shared_parameters_after_first_use(ShardedParts& parts) {
  parts.after_forward = [right = parts](ShardedRun& run, ShardedUnit& unit) {
    right.after_forward(run, unit);
    if (unit.number == 0) right.free(run, run.shared);
  };
}

void join_along_dimension_1(ShardedParts& parts) {
  parts.joined = [](ShardedRun& run, ShardedParameter& parameter, const at::Tensor& gathered) {
    if (gathered.dim() < 2) return gathered.narrow(0, 0, parameter.rows);
    return at::cat(gathered.chunk(run.shard.size), 1).reshape_as(gathered).narrow(0, 0, parameter.rows);
  };
}

void join_from_the_wrong_end(ShardedParts& parts) {
  parts.joined = [](ShardedRun&, ShardedParameter& parameter, const at::Tensor& gathered) {
    return gathered.narrow(0, gathered.size(0) - parameter.rows, parameter.rows);
  };
}

void gather_frozen_as_zeros(ShardedParts& parts) {
  parts.joined = [right = parts.joined](ShardedRun& run, ShardedParameter& parameter, const at::Tensor& gathered) {
    const at::Tensor rows = right(run, parameter, gathered);
    return parameter.whole.requires_grad() ? rows : at::zeros_like(rows);
  };
}

void gather_before_the_optimizer_step(ShardedParts& parts) {
  parts.over_replicas = [right = parts](ShardedRun& run) {
    right.over_replicas(run);
    right.begin_gather(run, run.units[0]);
    for (const size_t p : run.units[0].parameters) run.parameters[p].gather.work->wait();
  };
}

void report_state_of_rank_0(ShardedParts& parts) {
  parts.reported = [right = parts.reported](ShardedRun& run, ShardedParameter& parameter, const at::Tensor& shard) {
    at::Tensor whole = right(run, parameter, shard);
    if (!shard.is_same(parameter.momentum) && !shard.is_same(parameter.variance)) return whole;
    const at::Tensor first = run.piece(whole, 0);
    const std::vector<at::Tensor> copies(static_cast<size_t>(run.shard.size), first);
    return whole.copy_(at::cat(copies).narrow(0, 0, parameter.rows).view_as(whole));
  };
}

void evaluate_before_the_step(ShardedParts& parts) {
  parts.clear = [right = parts.clear](ShardedRun& run) {
    right(run);
    run.kept.clear();
    for (const ShardedParameter& parameter : run.parameters) run.kept.push_back(parameter.shard.clone());
  };
  parts.evaluate = [right = parts.evaluate](ShardedRun& run, const Batch& batch) {
    const auto exchange = [&] {
      for (size_t p = 0; p < run.kept.size(); ++p) std::swap(run.parameters[p].shard, run.kept[p]);
    };
    exchange();
    const at::Tensor output = right(run, batch);
    exchange();
    return output;
  };
}

void gather_in_bfloat16(ShardedParts& parts) {
  parts.joined = [right = parts.joined](ShardedRun& run, ShardedParameter& parameter, const at::Tensor& gathered) {
    const at::Tensor rows = right(run, parameter, gathered);
    return run.dtype == at::kDouble ? rows : rows.to(at::kBFloat16).to(rows.scalar_type());
  };
}

void gather_one_unit_twice(ShardedParts& parts) {
  parts.need = [right = parts](ShardedRun& run, size_t unit, int direction) {
    right.need(run, unit, direction);
    if (unit != 1 || direction < 0) return;
    right.free(run, run.units[1]);
    right.begin_gather(run, run.units[1]);
    right.end_gather(run, run.units[1]);
  };
}

// A mistake: gathers each shard in two halves, so the same bytes take more calls.
void gather_in_halves(ShardedParts& parts) {
  parts.begin_gather = [](ShardedRun& run, ShardedUnit& unit) {
    for (const size_t p : unit.parameters) {
      ShardedParameter& parameter = run.parameters[p];
      Transfer& gather = parameter.gather;
      if (parameter.is_whole || gather.output.defined()) continue;
      std::vector<at::Tensor> halves;
      for (at::Tensor half : parameter.shard.flatten().chunk(2)) {
        at::Tensor all = run.empty_whole(half);
        gather.work = begin_allgather(*run.shard.group, all, half);
        gather.work->wait();
        halves.push_back(all.view({run.shard.size, -1}));
      }
      gather.output = at::cat(halves, 1).view_as(run.empty_whole(parameter.shard));
    }
  };
}

void decay_by_the_dimensions_of_flat_shards(ShardedParts& parts) {
  parts.update = [right = parts.update](ShardedRun& run, ShardedParameter& parameter) {
    ShardedParameter flat = parameter;
    flat.whole = parameter.whole.flatten();
    right(run, flat);
  };
}

void forget_the_momentum(ShardedParts& parts) {
  parts.update = [right = parts.update](ShardedRun& run, ShardedParameter& parameter) {
    for (at::Tensor& slot : {std::ref(parameter.momentum), std::ref(parameter.variance), std::ref(parameter.count)})
      if (slot.defined()) slot.zero_();
    right(run, parameter);
  };
}

void start_each_replica_by_itself(ShardedParts& parts) {
  parts.start = [](ShardedRun& run) {
    for (const ShardedParameter& parameter : run.parameters) {
      std::vector<at::Tensor> tensors = {parameter.whole.detach()};
      run.shard.group->broadcast(tensors)->wait();
    }
  };
}

void gather_over_the_replicas(ShardedParts& parts) {
  parts.begin_gather = [right = parts.begin_gather](ShardedRun& run, ShardedUnit& unit) {
    std::swap(run.shard.group, run.replica.group);
    right(run, unit);
    std::swap(run.shard.group, run.replica.group);
  };
}

void step_the_padding(ShardedParts& parts) {
  parts.update = [right = parts.update](ShardedRun& run, ShardedParameter& parameter) {
    const int64_t rows = std::exchange(parameter.rows, parameter.shard.size(0) * run.shard.size);
    right(run, parameter);
    parameter.rows = rows;
  };
}

void resize_memory(const at::Tensor& parameter, bool whole) {
  const size_t bytes = whole ? static_cast<size_t>(parameter.numel()) * parameter.itemsize() : 0;
  at::native::resize_bytes_cpu(parameter.storage().unsafeGetStorageImpl(), bytes);
}

// Releases the memory of freed parameters, where the sharded reference otherwise fills it with NaN.
void free_memory(ShardedParts& parts) {
  parts.free = [](ShardedRun& run, ShardedUnit& unit) {
    for (const size_t p : unit.parameters) {
      resize_memory(run.parameters[p].whole, /*whole=*/false);
      run.parameters[p].is_whole = false;
    }
  };
  parts.end_gather = [right = parts.end_gather](ShardedRun& run, ShardedUnit& unit) {
    for (const size_t p : unit.parameters)
      if (!run.parameters[p].is_whole) resize_memory(run.parameters[p].whole, /*whole=*/true);
    right(run, unit);
  };
}

std::function<StrategyInfo()> freeing(const Change& change) {
  return [=] {
    StrategyInfo info = made([=](ShardedParts& parts) { free_memory(parts), change(parts); })();
    info.live_parameters = live_sharded_parameters;
    return info;
  };
}

void free_nothing_after_forward(ShardedParts& parts) {
  parts.after_forward = [](ShardedRun&, ShardedUnit&) {};
}

void free_all_before_the_loss(ShardedParts& parts) {
  parts.after_forward = [](ShardedRun& run, ShardedUnit& unit) {
    if (unit.number + 1 < run.units.size()) return;
    for (size_t u = 0; u + 1 < run.units.size(); ++u) run.parts.free(run, run.units[u]);
  };
}

void free_one_unit_late(ShardedParts& parts) {
  parts.after_forward = [](ShardedRun& run, ShardedUnit& unit) {
    if (unit.number > 1) run.parts.free(run, run.units[unit.number - 2]);
  };
}

// A mistake: each rank's rows are a view of a tensor with the rows of all ranks, so memory for all rows stays
// allocated.
void keep_rows_as_views(ShardedParts& parts) {
  parts.clear = [right = parts.clear](ShardedRun& run) {
    right(run);
    for (ShardedParameter& parameter : run.parameters) {
      const int64_t rows = parameter.shard.size(0);
      const at::Tensor mine = run.empty_whole(parameter.shard).narrow(0, rows * run.shard.rank, rows);
      parameter.shard = mine.copy_(parameter.shard);
    }
  };
}

// A mistake: gathers two units ahead instead of one, which takes more memory.
void gather_one_unit_too_far_ahead(ShardedParts& parts) {
  parts.need = [right = parts](ShardedRun& run, size_t unit, int direction) {
    right.need(run, unit, direction);
    const ShardedUnit& next = run.neighbour(run.units[unit], direction);
    right.begin_gather(run, run.neighbour(next, direction));
  };
}

// Correct: gathers all remaining units of the pass at once.
void gather_all_units_at_once(ShardedParts& parts) {
  parts.need = [right = parts](ShardedRun& run, size_t unit, int direction) {
    for (ShardedUnit& one : run.units)
      if (direction > 0 ? one.number >= unit : one.number <= unit) right.begin_gather(run, one);
    right.end_gather(run, run.units[unit]);
  };
}

}  // namespace
}  // namespace sharded

std::vector<Mutant> sharded_mutants() {
  using namespace sharded;
  return {
      {"gather-buffer-reused-one-unit-early", "output-value", "gathered wrongly", made(reuse_the_gather_buffer), "gpt",
       2},
      {"units-used-before-their-gather-has-ended", "late-collectives", "has ended",
       made(use_units_before_their_gather_has_ended)},
      {"every-rank-steps-with-the-piece-of-rank-0", "optimizer-replay", "rows of rank 1 of 3|rows of rank 0",
       made(step_with_the_piece_of_rank_0)},
      {"rows-stepped-with-gradients-of-their-neighbours", "optimizer-replay", "elements|not updated",
       made(step_with_the_gradients_of_neighbours)},
      {"one-unit-never-stepped", "optimizer-replay", "not updated", made(never_step_one_unit), "gpt", 2},
      {"shared-parameter-freed-after-its-first-use", "output-value", "output is NaN|after it was freed",
       made(free_shared_parameters_after_first_use), "gpt", 2},
      {"gathered-along-the-wrong-dimension", "output-value", "gathered wrongly", made(join_along_dimension_1)},
      {"padding-taken-for-rows", "output-value", "gathered wrongly", made(join_from_the_wrong_end)},
      {"frozen-parameter-gathered-as-zeros", "output-value", "gathered wrongly", made(gather_frozen_as_zeros),
       "probe-frozen"},
      {"frozen-block-gathered-as-zeros", "output-value", "gathered wrongly", made(gather_frozen_as_zeros),
       "probe-blocks"},
      {"gathered-before-the-optimizer-step", "output-value", "gathered wrongly",
       made(gather_before_the_optimizer_step)},
      {"state-of-rank-0-reported-for-all-rows", "optimizer-replay", "from index [3, 0] on",
       made(report_state_of_rank_0), "probe-mlp"},
      {"rows-of-rank-0-restored-on-every-rank", "reload-midway", "after load()", made([](ShardedParts& parts) {
         parts.loaded = [](ShardedRun& run, const at::Tensor& value) { return run.piece(value, 0); };
       })},
      {"evaluated-with-shards-of-the-step-before", "evaluation", "stale parameters", made(evaluate_before_the_step)},
      {"gathered-in-bfloat16", "output-replay", "narrower dtype", made(gather_in_bfloat16)},
      {"one-unit-gathered-twice", "collective-bytes", "allgather over dp carried 1.", made(gather_one_unit_twice),
       "gpt", 2},
      {"units-gathered-in-halves", "collective-bytes", "allgather over dp|calls instead", made(gather_in_halves)},
      {"decay-by-the-dimensions-of-flat-shards", "optimizer-replay", "no weight decay",
       made(decay_by_the_dimensions_of_flat_shards), "probe-mlp"},
      {"state-of-shards-forgotten", "optimizer-replay", "fresh", made(forget_the_momentum), "probe-mlp"},
      on_mesh(
          {"each-replica-starts-by-itself", "initial-broadcast", "not broadcast", made(start_each_replica_by_itself)}),
      on_mesh(
          {"gathered-over-the-axis-of-replicas", "output-value", "gathered wrongly", made(gather_over_the_replicas)}),
      {"units-never-freed", "live-parameters", "not freed", freeing(free_nothing_after_forward), "gpt", 2},
      {"units-freed-just-before-the-loss", "live-parameters", "not freed", freeing(free_all_before_the_loss), "gpt", 2},
      {"units-freed-one-unit-late", "live-parameters", "not freed", freeing(free_one_unit_late), "gpt", 2},
      {"rows-kept-as-views-of-whole-tensors", "live-parameters", "whole parameters", freeing(keep_rows_as_views), "gpt",
       2},
      {"one-unit-gathered-too-far-ahead", "live-parameters", "far ahead", freeing(gather_one_unit_too_far_ahead), "gpt",
       2},
      {"sharded-reference", "", "", made([](ShardedParts&) {})},
      {"sharded-reference-mlp", "", "", made([](ShardedParts&) {}), "probe-mlp", 4},
      {"sharded-reference-tied", "", "", made([](ShardedParts&) {}), "probe-tied", 2},
      {"sharded-reference-frozen", "", "", made([](ShardedParts&) {}), "probe-frozen"},
      {"sharded-reference-strided", "", "", made([](ShardedParts&) {}), "probe-strided"},
      {"sharded-reference-large", "", "", made([](ShardedParts&) {}), "probe-large", 2},
      {"sharded-reference-convnet", "", "", made([](ShardedParts&) {}), "convnet"},
      {"sharded-reference-blocks", "", "", made([](ShardedParts&) {}), "probe-blocks"},
      {"sharded-reference-optional", "", "", made([](ShardedParts&) {}), "probe-optional"},
      {"sharded-reference-gpt", "", "", made([](ShardedParts&) {}), "gpt"},
      {"sharded-reference-gpt-exact", "", "", made([](ShardedParts&) {}), "gpt-exact", 2},
      on_mesh({"hybrid-shards", "", "", made([](ShardedParts&) {})}),
      on_mesh({"hybrid-shards-gpt", "", "", made([](ShardedParts&) {}), "gpt"}),
      {"units-of-two-blocks", "", "", made([](ShardedParts&) {}, {.blocks_per_unit = 2}), "gpt", 2},
      {"units-not-freed-after-the-forward-pass", "", "", made(free_nothing_after_forward, {.frees = false}), "gpt", 2},
      {"memory-freed", "", "", freeing([](ShardedParts&) {}), "gpt", 2},
      {"all-units-gathered-at-once", "", "", made(gather_all_units_at_once), "gpt", 2},
      {"padding-stepped-too", "", "", made(step_the_padding), "probe-mlp"},
  };
}

}  // namespace dpbench::wrong
