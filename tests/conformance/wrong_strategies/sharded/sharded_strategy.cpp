// The forward and backward passes of the sharded reference strategy, and its accessors.
#include <stdexcept>

#include <ATen/ATen.h>

#include "strategies/api/trained_parameters.h"
#include "tests/conformance/wrong_strategies/of_both_references.h"
#include "tests/conformance/wrong_strategies/sharded/sharded_division.h"
#include "workloads/layers/autocast.h"

namespace dpbench::wrong {
namespace sharded {
namespace {

// Removes the gradient of each parameter that no rank used.
void drop_unused(ShardedRun& run) {
  at::Tensor used = at::zeros({static_cast<int64_t>(run.parameters.size())}, at::kInt);
  for (size_t p = 0; p < run.parameters.size(); ++p) used[static_cast<int64_t>(p)] = run.parameters[p].used ? 1 : 0;
  run.sum(used, run.mesh.group());
  for (size_t p = 0; p < run.parameters.size(); ++p)
    if (used[static_cast<int64_t>(p)].item<int>() == 0) run.parameters[p].gradient.reset();
}

void clip(ShardedRun& run) {
  if (!run.clip_norm) return;
  const double factor = clip_factor(run.clip_norm, run.parts.squares(run));
  if (factor >= 1) return;
  for (const ShardedParameter& parameter : run.parameters)
    if (parameter.gradient.defined()) parameter.gradient.mul_(factor);
}

// A unit's part of the autograd graph.
struct Piece {
  at::Tensor input, output;
};

at::Tensor forward(ShardedRun& run, const Batch& batch, int64_t step, std::vector<Piece>& pieces) {
  const bool narrow = run.dtype == at::kBFloat16;
  run.parts.begin_gather(run, run.shared);
  run.parts.end_gather(run, run.shared);
  at::Tensor x = batch.input;
  for (size_t u = 0; u < run.units.size(); ++u) {
    run.parts.need(run, u, 1);
    const ShardedUnit& unit = run.units[u];
    const at::Tensor input = u == 0 ? x : x.detach().requires_grad_(x.requires_grad());
    const Context context{run.step_seed, step, batch.ids};
    {
      const Autocast autocast(narrow, at::kCPU);
      x = unit.last == 0 ? run.model->forward(input, context)
                         : run.model->forward_span(unit.first, unit.last, input, context);
    }
    pieces.push_back({input, x});
    run.parts.after_forward(run, run.units[u]);
  }
  return narrow ? x.to(at::kFloat) : x;
}

void backward(ShardedRun& run, std::vector<Piece>& pieces) {
  const bool reduces = run.parts.reduces(run);
  at::Tensor slope;  // gradient of a unit's output; undefined for the last unit, which outputs the loss
  for (size_t u = run.units.size(); u-- > 0;) {
    run.parts.need(run, u, -1);
    const bool reached = u + 1 == run.units.size() || slope.defined();
    if (reached && pieces[u].output.requires_grad()) pieces[u].output.backward(slope);
    slope = u == 0 ? at::Tensor() : pieces[u].input.grad();
    run.parts.free(run, run.units[u]);
    if (!reduces) continue;
    const at::NoGradGuard no_grad;
    if (u + 1 < run.units.size()) run.parts.end_reduce(run, run.units[u + 1]);
    run.parts.begin_reduce(run, run.units[u]);
  }
  if (!reduces) return;
  const at::NoGradGuard no_grad;
  run.parts.end_reduce(run, run.units[0]);
  run.parts.begin_reduce(run, run.shared);
  run.parts.end_reduce(run, run.shared);
}

class ShardedReference : public Strategy {
 public:
  ShardedReference(const Setup& setup, const ShardedParts& parts, int64_t blocks_per_unit)
      : run_(setup, parts, blocks_per_unit) {
    const at::NoGradGuard no_grad;
    run_.parts.start(run_);
    for (ShardedParameter& parameter : run_.parameters)
      parameter.shard = run_.piece(parameter.whole.detach(), run_.shard.rank).clone();
    for (ShardedUnit& unit : run_.units) run_.parts.free(run_, unit);
    run_.parts.free(run_, run_.shared);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases&) override {
    if (micro.empty()) throw std::runtime_error("this rank has no samples in step " + std::to_string(step));
    run_.step = step;
    run_.micros = static_cast<int64_t>(micro.size());
    {
      const at::NoGradGuard no_grad;
      run_.parts.sync_buffers(run_);
      run_.parts.clear(run_);
    }
    StepResult result;
    for (run_.micro = 0; run_.micro < run_.micros; ++run_.micro)
      run_micro_batch(micro[static_cast<size_t>(run_.micro)], result);
    const at::NoGradGuard no_grad;
    run_.parts.free(run_, run_.shared);
    run_.parts.over_replicas(run_);
    drop_unused(run_);
    clip(run_);
    for (ShardedParameter& parameter : run_.parameters)
      if (parameter.gradient.defined()) run_.parts.update(run_, parameter);
    return result;
  }

  at::Tensor forward(const Batch& mine) override {
    const at::NoGradGuard no_grad;
    return run_.parts.evaluate(run_, mine);
  }

  void load(const Snapshot& snapshot) override {
    const at::NoGradGuard no_grad;
    load_into(parameters(), snapshot.parameters, "parameter");
    load_into(buffers(), snapshot.buffers, "buffer");
    load_into(state(), snapshot.state, "optimizer state");
    for (ShardedParameter& parameter : run_.parameters) {
      parameter.shard.copy_(run_.parts.loaded(run_, *find(snapshot.parameters, parameter.name)));
      for (const auto& [slot, mine] : slots_of(parameter)) {
        const at::Tensor& value = *find(snapshot.state, state_name(parameter.name, slot));
        at::Tensor(mine).copy_(slot == Slot::step ? value : run_.parts.loaded(run_, value));
      }
    }
  }

  NamedTensors parameters() override {
    const at::NoGradGuard no_grad;
    NamedTensors result;
    for (const auto& item : run_.model->named_parameters())
      for (ShardedParameter& parameter : run_.parameters)
        if (parameter.whole.is_same(item.value()))
          result.emplace_back(item.key(), run_.parts.reported(run_, parameter, parameter.shard));
    return result;
  }
  KeptTensors kept_tensors() override {
    KeptTensors kept;
    for (const ShardedParameter& parameter : run_.parameters)
      kept.parameters.emplace_back(parameter.name, parameter.shard);
    return kept;
  }
  NamedTensors buffers() override { return named_buffers(*run_.model); }
  NamedTensors gradients() override {
    const at::NoGradGuard no_grad;
    NamedTensors result;
    for (ShardedParameter& parameter : run_.parameters) {
      if (!parameter.whole.requires_grad()) continue;
      const at::Tensor& mine = parameter.gradient;
      result.emplace_back(parameter.name, mine.defined() ? run_.parts.reported(run_, parameter, mine) : at::Tensor());
    }
    return result;
  }
  NamedTensors state() override {
    const at::NoGradGuard no_grad;
    NamedTensors result;
    for (ShardedParameter& parameter : run_.parameters)
      for (const auto& [slot, mine] : slots_of(parameter))
        result.emplace_back(state_name(parameter.name, slot),
                            slot == Slot::step ? mine : run_.parts.reported(run_, parameter, mine));
    return result;
  }

 private:
  std::vector<std::pair<Slot, at::Tensor>> slots_of(const ShardedParameter& parameter) const {
    std::vector<std::pair<Slot, at::Tensor>> slots;
    if (!parameter.whole.requires_grad()) return slots;
    for (const Slot slot : state_slots(run_.workload.optimizer()))
      slots.emplace_back(slot, slot == Slot::step       ? parameter.count
                               : slot == Slot::variance ? parameter.variance
                                                        : parameter.momentum);
    return slots;
  }

  void run_micro_batch(const Batch& batch, StepResult& result) {
    const Batch mine = cast_for(run_.dtype, batch);
    std::vector<Piece> pieces;
    const at::Tensor output = sharded::forward(run_, mine, run_.step, pieces);
    const at::Tensor loss = run_.workload.loss(output, mine.target) / static_cast<double>(run_.micros);
    pieces.back().output = loss;
    backward(run_, pieces);
    add_micro(result, output, loss);
  }

  ShardedRun run_;
};

}  // namespace

at::Tensor evaluate(ShardedRun& run, const Batch& batch) {
  run.model->eval();
  std::vector<Piece> pieces;
  const at::Tensor output = forward(run, cast_for(run.dtype, batch), 0, pieces);
  run.model->train();
  for (ShardedUnit& unit : run.units) run.parts.free(run, unit);
  run.parts.free(run, run.shared);
  return output;
}

}  // namespace sharded

StrategyInfo sharded_strategy_of(const ShardedParts& parts, const ShardedOptions& options) {
  return {.name = "sharded-reference",
          .summary = "parameters sharded by rows, one collective a parameter",
          .parallelism = Parallelism::ranks,
          .axes = {"dp", "shard"},
          .make = [=](const Setup& setup) -> std::unique_ptr<Strategy> {
            return std::make_unique<sharded::ShardedReference>(setup, parts, options.blocks_per_unit);
          },
          .traffic = sharded::traffic_of(options),
          .allows_unused = true,
          .collective_evaluation = true,
          .reduces_each_micro_batch = options.reduces_each_micro_batch};
}

}  // namespace dpbench::wrong
