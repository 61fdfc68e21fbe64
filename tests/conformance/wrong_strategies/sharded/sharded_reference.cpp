#include "tests/conformance/wrong_strategies/sharded/sharded_reference.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "tests/conformance/wrong_strategies/of_both_references.h"
#include "tests/conformance/wrong_strategies/sharded/sharded_division.h"

namespace dpbench::wrong {
// This namespace has a name because a unity build merges the unnamed namespaces of the files that it includes.
namespace sharded {
namespace {

void broadcast(const ShardedRun& run, const at::Tensor& tensor) {
  at::Tensor mine = tensor.detach().contiguous();
  std::vector<at::Tensor> tensors = {mine};
  run.mesh.group()->broadcast(tensors)->wait();
  if (!mine.is_alias_of(tensor)) tensor.variable_data().copy_(mine);
}

void sync_buffers(ShardedRun& run) {
  for (const auto& item : run.model->named_buffers()) broadcast(run, item.value());
}

void start(ShardedRun& run) {
  for (const ShardedParameter& parameter : run.parameters) broadcast(run, parameter.whole);
  sync_buffers(run);
}

void clear(ShardedRun& run) {
  for (ShardedParameter& parameter : run.parameters) {
    parameter.whole.mutable_grad().reset();
    parameter.gradient.reset();
    parameter.used = false;
  }
}

void need(ShardedRun& run, size_t unit, int direction) {
  run.parts.begin_gather(run, run.units[unit]);
  run.parts.end_gather(run, run.units[unit]);
  run.parts.begin_gather(run, run.neighbour(run.units[unit], direction));
}

void begin_gather(ShardedRun& run, ShardedUnit& unit) {
  for (const size_t p : unit.parameters) {
    ShardedParameter& parameter = run.parameters[p];
    if (parameter.is_whole || parameter.gather.output.defined()) continue;
    Transfer& gather = parameter.gather;
    gather.input = parameter.shard;
    gather.output = run.empty_whole(gather.input);
    gather.work = begin_allgather(*run.shard.group, gather.output, gather.input);
  }
}

void end_gather(ShardedRun& run, ShardedUnit& unit) {
  for (const size_t p : unit.parameters) {
    ShardedParameter& parameter = run.parameters[p];
    if (parameter.is_whole) continue;
    parameter.gather.work->wait();
    const at::Tensor rows = run.parts.joined(run, parameter, parameter.gather.output);
    parameter.whole.variable_data().copy_(rows.view_as(parameter.whole));
    parameter.gather = {};
    parameter.is_whole = true;
  }
}

at::Tensor joined(ShardedRun&, ShardedParameter& parameter, const at::Tensor& gathered) {
  return gathered.narrow(0, 0, parameter.rows);
}

void free(ShardedRun& run, ShardedUnit& unit) {
  for (const size_t p : unit.parameters) {
    ShardedParameter& parameter = run.parameters[p];
    parameter.whole.variable_data().fill_(std::numeric_limits<double>::quiet_NaN());
    parameter.is_whole = false;
  }
}

// The last unit is not freed after its forward pass, because its backward pass follows at once.
void after_forward(ShardedRun& run, ShardedUnit& unit) {
  if (unit.number + 1 < run.units.size()) run.parts.free(run, unit);
}

at::Tensor filled(ShardedRun& run, ShardedParameter& parameter) {
  const at::Tensor& gradient = parameter.whole.grad();
  const at::Tensor mine = gradient.defined() ? gradient : at::zeros_like(parameter.whole);
  return run.padded(mine).div_(run.shard.size * run.replica.size);
}

void begin_reduce(ShardedRun& run, ShardedUnit& unit) {
  for (const size_t p : unit.parameters) {
    ShardedParameter& parameter = run.parameters[p];
    if (!parameter.whole.requires_grad()) continue;
    parameter.used = parameter.used || parameter.whole.grad().defined();
    Transfer& reduction = parameter.reduction;
    reduction.input = run.parts.filled(run, parameter);
    reduction.output = at::empty_like(parameter.shard);
    reduction.work = begin_reduce_scatter(*run.shard.group, reduction.output, reduction.input);
    parameter.whole.mutable_grad().reset();
  }
}

void end_reduce(ShardedRun& run, ShardedUnit& unit) {
  for (const size_t p : unit.parameters) {
    ShardedParameter& parameter = run.parameters[p];
    if (!parameter.reduction.work) continue;
    parameter.reduction.work->wait();
    run.parts.add(run, parameter, parameter.reduction.output);
    parameter.reduction = {};
  }
}

void add(ShardedRun&, ShardedParameter& parameter, const at::Tensor& sum) {
  parameter.gradient = parameter.gradient.defined() ? parameter.gradient + sum : sum;
}

void over_replicas(ShardedRun& run) {
  if (run.replica.size == 1) return;
  for (const ShardedParameter& parameter : run.parameters)
    if (parameter.gradient.defined()) run.sum(parameter.gradient, run.replica.group);
}

double squares(ShardedRun& run) {
  at::Tensor sum = at::zeros({1}, at::kDouble);
  for (const ShardedParameter& parameter : run.parameters)
    if (parameter.gradient.defined()) sum += parameter.gradient.to(at::kDouble).square().sum();
  run.sum(sum, run.shard.group);
  return sum.item<double>();
}

void update(ShardedRun& run, ShardedParameter& parameter) {
  const OptimizerSpec spec = run.workload.optimizer();
  const double rate = learning_rate(spec, run.step);
  const auto own = [&](const at::Tensor& tensor) {
    return tensor.defined() ? std::vector{tensor.narrow(0, 0, run.own_rows(parameter))} : std::vector<at::Tensor>();
  };
  std::vector<at::Tensor> rows = own(parameter.shard), gradient = own(parameter.gradient),
                          momentum = own(parameter.momentum);
  if (spec.kind == OptimizerSpec::Kind::adam) {
    parameter.count += 1;
    at::_fused_adamw_(rows, gradient, momentum, own(parameter.variance), {}, {parameter.count}, rate, spec.beta1,
                      spec.beta2, weight_decay(spec, parameter.whole.dim()), spec.epsilon, false, false);
  } else {
    at::_fused_sgd_(rows, gradient, momentum, 0, spec.momentum, rate, 0, false, false, false);
  }
}

at::Tensor reported(ShardedRun& run, ShardedParameter& parameter, const at::Tensor& shard) {
  at::Tensor mine = shard, all = run.empty_whole(shard);
  begin_allgather(*run.shard.group, all, mine)->wait();
  return at::empty_like(parameter.whole, shard.scalar_type())
      .copy_(all.narrow(0, 0, parameter.rows).view_as(parameter.whole));
}

}  // namespace
}  // namespace sharded

ShardedParts right_sharded_parts() {
  return {.start = sharded::start,
          .sync_buffers = sharded::sync_buffers,
          .clear = sharded::clear,
          .need = sharded::need,
          .begin_gather = sharded::begin_gather,
          .end_gather = sharded::end_gather,
          .joined = sharded::joined,
          .free = sharded::free,
          .after_forward = sharded::after_forward,
          .reduces = [](ShardedRun&) { return true; },
          .filled = sharded::filled,
          .begin_reduce = sharded::begin_reduce,
          .end_reduce = sharded::end_reduce,
          .add = sharded::add,
          .over_replicas = sharded::over_replicas,
          .squares = sharded::squares,
          .update = sharded::update,
          .evaluate = sharded::evaluate,
          .reported = sharded::reported,
          .loaded = [](ShardedRun& run, const at::Tensor& value) { return run.piece(value, run.shard.rank); }};
}

ShardedRun::ShardedRun(const Setup& setup, ShardedParts its_parts, int64_t blocks_per_unit)
    : parts(std::move(its_parts)),
      workload(setup.workload),
      mesh(setup.mesh),
      shard(mesh.axis(mesh.axis("shard").size > 1 ? "shard" : "dp")),
      replica(mesh.axis("shard").size > 1 ? mesh.axis("dp") : Axis{.name = "dp"}),
      rank(setup.mesh.group()->getRank()),
      dtype(setup.dtype),
      step_seed(setup.step_seed),
      clip_norm(setup.clip_norm),
      model(setup.workload.model(setup.init_seed)) {
  for (const auto& item : model->named_buffers()) widen_for(dtype, item.value());
  const sharded::Division division = sharded::divided(*model, blocks_per_unit);
  for (const auto& [first, last] : division.spans)
    units.push_back({.number = units.size(), .first = first, .last = last});
  shared.number = units.size();
  const OptimizerSpec spec = workload.optimizer();
  for (size_t p = 0; p < division.parameters.size(); ++p) {
    const at::Tensor& whole = division.parameters[p];
    widen_for(dtype, whole);
    std::string name;
    for (const auto& item : model->named_parameters())
      if (name.empty() && item.value().is_same(whole)) name = item.key();
    ShardedParameter parameter{.name = name,
                               .whole = whole,
                               .rows = sharded::rows_of(whole),
                               .shard = piece(whole.detach(), shard.rank).clone()};
    if (!state_slots(spec).empty()) parameter.momentum = at::zeros_like(parameter.shard);
    if (spec.kind == OptimizerSpec::Kind::adam) parameter.variance = at::zeros_like(parameter.shard);
    parameter.count = at::zeros({});
    (division.unit[p] == units.size() ? shared : units[division.unit[p]]).parameters.push_back(p);
    parameters.push_back(std::move(parameter));
  }
  model->train();
}

void ShardedRun::sum(at::Tensor tensor, const c10::intrusive_ptr<c10d::ProcessGroup>& group) const {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  group->allreduce(tensors)->wait();
}

at::Tensor ShardedRun::padded(const at::Tensor& whole) const { return sharded::padded_for(whole, shard.size); }

int64_t ShardedRun::own_rows(const ShardedParameter& parameter) const {
  const int64_t each = parameter.shard.size(0);
  return std::clamp<int64_t>(parameter.rows - each * shard.rank, 0, each);
}

ShardedUnit& ShardedRun::neighbour(const ShardedUnit& unit, int direction) {
  const auto last = static_cast<int64_t>(units.size()) - 1;
  return units[static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(unit.number) + direction, 0, last))];
}

at::Tensor ShardedRun::empty_whole(const at::Tensor& its_shard) const {
  std::vector<int64_t> sizes = its_shard.sizes().vec();
  sizes[0] *= shard.size;
  return at::empty(sizes, its_shard.options());
}

at::Tensor ShardedRun::piece(const at::Tensor& value, int place) const {
  return padded(value).chunk(shard.size)[static_cast<size_t>(place)];
}

}  // namespace dpbench::wrong
