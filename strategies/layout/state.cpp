#include "strategies/layout/state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/parts/shard_sums.h"
#include "strategies/pipeline/owned.h"

namespace dpbench::layout {
namespace {

using pipeline::Placed;
// A function that returns the tensor that this rank stores for a parameter, such as its value, gradient or optimizer
// state. Undefined if there is none.
using Choose = std::function<at::Tensor(const Held&)>;

// Gathers one whole tensor per parameter on every rank, in the order of the model's parameters. scalars: true if the
// tensors are single float32 values, equal on all ranks that have the parameter (such as step counts).
std::vector<at::Tensor> whole(RankModel& model, const Choose& choose, bool scalars = false) {
  ByName parts;
  for (const Held& one : model.own)
    if (model.owner_of(*one.placed) == model.axes.pp.rank)
      if (const at::Tensor part = choose(one); part.defined()) parts.emplace(one.name(), part);
  if (model.units && !scalars) parts = model.units->joined(parts);
  if (!scalars) parts = model.experts.joined(model.tensors.joined(parts));
  std::vector<int> owners;
  std::vector<pipeline::Whole> wholes;
  for (const Placed& one : model.parameters) {
    owners.push_back(model.owner_of(one));
    wholes.push_back(scalars ? pipeline::Whole{.sizes = {}, .dtype = at::kFloat}
                             : pipeline::Whole{.sizes = one.sizes, .dtype = one.dtype});
  }
  return from_owners(model.axes.pp, model.replica.device(), owners, wholes, [&](size_t i) {
    const auto part = parts.find(model.parameters[i].name);
    return part == parts.end() ? at::Tensor() : part->second;
  });
}

// Gathers a whole tensor for each trainable parameter on every rank. Each tensor is named like its parameter, followed
// by `suffix`.
NamedTensors trained(RankModel& model, const Choose& choose, const std::string& suffix, bool scalars = false) {
  const auto of_trained = [&](const Held& one) {
    return one.placed->tensor.requires_grad() ? choose(one) : at::Tensor();
  };
  const std::vector<at::Tensor> found = whole(model, of_trained, scalars);
  NamedTensors all;
  for (size_t i = 0; i < model.parameters.size(); ++i)
    if (const Placed& one = model.parameters[i]; one.tensor.requires_grad())
      all.emplace_back(one.name + suffix, found[i]);
  return all;
}

// Returns the indices, one per dimension, at which a view begins in its contiguous base tensor. sizes: the sizes of the
// base tensor.
std::vector<int64_t> first_of(const at::Tensor& view, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> first(sizes.size());
  int64_t offset = view.storage_offset();
  for (size_t i = sizes.size(); i-- > 0;) {
    first[i] = offset % sizes[i];
    offset /= sizes[i];
  }
  return first;
}

// Returns the part of a tensor that this rank saves in a checkpoint. The tensor has the shape of a parameter. Returns
// nullopt if this rank stores no elements of it, or only elements that another rank saves too.
std::optional<StatePart> part_of(const RankModel& model, const Held& one, StatePart::Kind kind, const std::string& name,
                                 const at::Tensor& values) {
  if (model.axes.replicas.rank > 0 || model.axes.cp.rank > 0 || !model.counts(one)) return std::nullopt;
  const std::vector<int64_t>& sizes = one.placed->sizes;
  const at::Tensor whole = at::empty(sizes, at::TensorOptions(at::kMeta));
  // Scalars and tensors without elements cannot be cut into rows, so the first rank of the axis shard stores them.
  if (whole.numel() == 0 || sizes.empty()) {
    if (model.axes.shard.rank > 0) return std::nullopt;
    return StatePart{kind, whole_part(name, values.view(sizes))};
  }
  const at::Tensor place = model.stored_part(one.name(), whole);
  if (place.numel() == 0) return std::nullopt;
  return StatePart{kind, {name, values.view(place.sizes()), first_of(place, sizes), sizes}};
}

}  // namespace

NamedTensors TrainingState::parameters() {
  const at::NoGradGuard no_grad;
  const auto found = whole(model_, [](const Held& one) { return one.stored; });
  NamedTensors all;
  for (const auto& [name, tensor] : model_.replica.parameters()) {
    const auto same =
        std::ranges::find_if(model_.parameters, [&](const Placed& one) { return one.tensor.is_same(tensor); });
    all.emplace_back(name, found[static_cast<size_t>(same - model_.parameters.begin())]);
  }
  return all;
}

NamedTensors TrainingState::gradients() {
  const at::NoGradGuard no_grad;
  return trained(model_, [](const Held& one) { return one.stored.grad(); }, "");
}

NamedTensors TrainingState::buffers() {
  const at::NoGradGuard no_grad;
  std::vector<int> owners;
  std::vector<pipeline::Whole> wholes;
  ByName mine;
  for (const Placed& one : model_.buffers) {
    owners.push_back(model_.owner_of(one));
    wholes.push_back({.sizes = one.sizes, .dtype = one.dtype});
    mine.emplace(one.name, one.tensor);
  }
  mine = model_.experts.joined(model_.tensors.joined(mine));
  const auto found = from_owners(model_.axes.pp, model_.replica.device(), owners, wholes,
                                 [&](size_t i) { return mine.at(model_.buffers[i].name); });
  NamedTensors all;
  for (size_t i = 0; i < model_.buffers.size(); ++i) all.emplace_back(model_.buffers[i].name, found[i]);
  return all;
}

NamedTensors TrainingState::optimizer_state() {
  const at::NoGradGuard no_grad;
  NamedTensors all;
  const NamedTensors own = optimizer_.state();
  for (const Slot slot : slots_) {
    if (slot == Slot::step) {
      for (auto& one : step_counts(own)) all.push_back(std::move(one));
      continue;
    }
    const auto mine = [&](const Held& one) {
      const at::Tensor* found = find(own, state_name(one.name(), slot));
      // Zeros if this rank has no optimizer state of the parameter, because it stores none of its rows.
      return found ? *found : at::zeros_like(one.stored);
    };
    for (auto& one : trained(model_, mine, "." + slot)) all.push_back(std::move(one));
  }
  return all;
}

// Returns how often the optimizer has stepped each parameter.
NamedTensors TrainingState::step_counts(const NamedTensors& state) {
  std::vector<Parameter> own;
  for (const Held& one : model_.own) own.push_back({one.name(), one.stored});
  const auto counts = largest_step_counts(own, state, model_.replica.device(), model_.axes.shard.group.get());
  const auto count_of = [&](const Held& one) {
    return counts[static_cast<size_t>(std::ranges::find(own, one.name(), &Parameter::name) - own.begin())];
  };
  return trained(model_, count_of, "." + Slot::step, /*scalars=*/true);
}

std::vector<StatePart> TrainingState::stored_parts() {
  const at::NoGradGuard no_grad;
  std::vector<StatePart> all;
  const auto add = [&](std::optional<StatePart> part) {
    if (part) all.push_back(std::move(*part));
  };
  for (const auto& [name, tensor] : model_.replica.parameters())
    for (const Held& one : model_.own)
      if (one.placed->tensor.is_same(tensor)) add(part_of(model_, one, StatePart::Kind::parameter, name, one.stored));
  const NamedTensors own = optimizer_.state();
  for (const Held& one : model_.trainable())
    for (const Slot slot : slots_)
      if (const at::Tensor* found = slot == Slot::step ? nullptr : find(own, state_name(one.name(), slot)))
        add(part_of(model_, one, StatePart::Kind::state, state_name(one.name(), slot), *found));
  // Step counts and the model's buffers are small, so they are not divided: rank 0 stores them whole.
  NamedTensors counts, found = buffers();
  if (std::ranges::count(slots_, Slot::step) > 0) counts = step_counts(own);
  if (model_.axes.world.rank > 0) return all;
  const auto add_whole = [&](StatePart::Kind kind, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) all.push_back({kind, whole_part(name, tensor)});
  };
  add_whole(StatePart::Kind::state, counts);
  add_whole(StatePart::Kind::buffer, found);
  return all;
}

KeptTensors TrainingState::kept_tensors() const {
  KeptTensors kept{.state = optimizer_.state()};
  for (const Held& one : model_.own) {
    kept.parameters.emplace_back(one.name(), one.stored);
    kept.gradients.emplace_back(one.name(), one.stored.grad());
  }
  if (model_.units)
    for (auto& part : model_.units->kept_parts()) kept.parameters.push_back(std::move(part));
  for (const Placed& one : model_.buffers) kept.buffers.emplace_back(one.name, one.tensor);
  return kept;
}

void TrainingState::set(const Snapshot& whole) {
  const at::NoGradGuard no_grad;
  for (const Held& one : model_.own) {
    const at::Tensor piece = model_.rank_piece(one.name(), *find(whole.parameters, one.name()));
    if (model_.units)
      model_.units->set(one.name(), piece);
    else
      one.stored.detach().copy_(piece);
  }
  for (const Placed& one : model_.buffers)
    one.tensor.detach().copy_(model_.rank_piece(one.name, *find(whole.buffers, one.name)));
  for (const auto& [full, mine] : optimizer_.state()) {
    const at::Tensor& value = *find(whole.state, full);
    const auto [parameter, slot] = split_state_name(full);
    mine.copy_(slot == Slot::step ? value : model_.stored_part(parameter, value).view_as(mine));
  }
}

}  // namespace dpbench::layout
