// Reads and loads the training state of the class Layout, as whole tensors or as the parts that each rank stores.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/layout/layout.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/pipeline/owned.h"

namespace dpbench::layout {

using pipeline::Placed;

NamedTensors Layout::parameters() {
  const at::NoGradGuard no_grad;
  const auto found = whole([](const Held& one) { return one.stored; });
  NamedTensors all;
  for (const auto& [name, tensor] : replica_.parameters()) {
    const auto same = std::ranges::find_if(parameters_, [&](const Placed& one) { return one.tensor.is_same(tensor); });
    all.emplace_back(name, found[static_cast<size_t>(same - parameters_.begin())]);
  }
  return all;
}

NamedTensors Layout::gradients() {
  const at::NoGradGuard no_grad;
  return trained([](const Held& one) { return one.stored.grad(); }, "");
}

NamedTensors Layout::buffers() {
  const at::NoGradGuard no_grad;
  std::vector<int> owners;
  std::vector<pipeline::Whole> wholes;
  ByName mine;
  for (const Placed& one : buffers_) {
    owners.push_back(owner_of(one));
    wholes.push_back({.sizes = one.sizes, .dtype = one.dtype});
    mine.emplace(one.name, one.tensor);
  }
  mine = experts_.joined(tensors_.joined(mine));
  const auto found =
      from_owners(pp_, replica_.device(), owners, wholes, [&](size_t i) { return mine.at(buffers_[i].name); });
  NamedTensors all;
  for (size_t i = 0; i < buffers_.size(); ++i) all.emplace_back(buffers_[i].name, found[i]);
  return all;
}

NamedTensors Layout::state() {
  const at::NoGradGuard no_grad;
  NamedTensors all;
  const NamedTensors own = optimizer_->state();
  for (const Slot slot : state_slots(workload_.optimizer())) {
    if (slot == Slot::step) {
      for (auto& one : step_counts(own)) all.push_back(std::move(one));
      continue;
    }
    const auto mine = [&](const Held& one) {
      const at::Tensor* found = find(own, state_name(one.name(), slot));
      return found ? *found : at::zeros_like(one.stored);  // a rank without rows of a parameter has no state of it
    };
    for (auto& one : trained(mine, "." + slot)) all.push_back(std::move(one));
  }
  return all;
}

// Returns how often the optimizer has stepped each parameter.
NamedTensors Layout::step_counts(const NamedTensors& state) {
  std::vector<Parameter> own;
  for (const Held& one : own_) own.push_back({one.name(), one.stored});
  const auto counts = largest_step_counts(own, state, replica_.device(), shard_.group.get());
  const auto count_of = [&](const Held& one) {
    return counts[static_cast<size_t>(std::ranges::find(own, one.name(), &Parameter::name) - own.begin())];
  };
  return trained(count_of, "." + Slot::step, /*scalars=*/true);
}

void Layout::load(const Snapshot& snapshot) {
  // The snapshot is first loaded into copies, so that a snapshot that does not fit changes nothing.
  const auto copies = [](NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
    return tensors;
  };
  const NamedTensors wanted = copies(parameters()), state_wanted = copies(state()), buffers_wanted = copies(buffers());
  load_into(wanted, snapshot.parameters, "parameter");
  load_into(state_wanted, snapshot.state, "optimizer state");
  load_into(buffers_wanted, snapshot.buffers, "buffer");
  const at::NoGradGuard no_grad;
  for (const Held& one : own_) {
    const at::Tensor& value = *find(wanted, one.name());
    if (units_)
      units_->set(one.name(), rank_piece(one.name(), value));
    else
      one.stored.detach().copy_(rank_piece(one.name(), value));
  }
  for (const Placed& one : buffers_) one.tensor.detach().copy_(rank_piece(one.name, *find(buffers_wanted, one.name)));
  for (const auto& [full, mine] : optimizer_->state()) {
    const at::Tensor& value = *find(state_wanted, full);
    const auto [parameter, slot] = split_state_name(full);
    mine.copy_(slot == Slot::step ? value : stored_part(parameter, value).view_as(mine));
  }
}

at::Tensor Layout::rank_piece(const std::string& name, const at::Tensor& whole) const {
  return experts_.piece(name, tensors_.piece(name, whole));
}

at::Tensor Layout::stored_part(const std::string& name, const at::Tensor& whole) const {
  const at::Tensor piece = rank_piece(name, whole);
  return units_ ? units_->rows_in(name, piece) : piece;
}

std::vector<at::Tensor> Layout::whole(const Choose& choose, bool scalars) {
  ByName parts;
  for (const Held& one : own_)
    if (owner_of(*one.placed) == pp_.rank)
      if (const at::Tensor part = choose(one); part.defined()) parts.emplace(one.name(), part);
  if (units_ && !scalars) parts = units_->joined(parts);
  if (!scalars) parts = experts_.joined(tensors_.joined(parts));
  std::vector<int> owners;
  std::vector<pipeline::Whole> wholes;
  for (const Placed& one : parameters_) {
    owners.push_back(owner_of(one));
    wholes.push_back(scalars ? pipeline::Whole{.sizes = {}, .dtype = at::kFloat}
                             : pipeline::Whole{.sizes = one.sizes, .dtype = one.dtype});
  }
  return from_owners(pp_, replica_.device(), owners, wholes, [&](size_t i) {
    const auto part = parts.find(parameters_[i].name);
    return part == parts.end() ? at::Tensor() : part->second;
  });
}

NamedTensors Layout::trained(const Choose& choose, const std::string& suffix, bool scalars) {
  const auto of_trained = [&](const Held& one) {
    return one.placed->tensor.requires_grad() ? choose(one) : at::Tensor();
  };
  const std::vector<at::Tensor> found = whole(of_trained, scalars);
  NamedTensors all;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].tensor.requires_grad()) all.emplace_back(parameters_[i].name + suffix, found[i]);
  return all;
}

namespace {

// Returns the position, by dimension, of a view's first element in its contiguous base tensor. sizes: the sizes of the
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

}  // namespace

// Returns this rank's part of a tensor that has the shape of a parameter. Returns nullopt if this rank stores no
// elements of the tensor, or only copies of elements that another rank saves.
std::optional<StatePart> Layout::part_of(const Held& one, StatePart::Kind kind, const std::string& name,
                                         const at::Tensor& values) const {
  const bool is_copy = replicas_.rank > 0 || cp_.rank > 0 || owner_of(*one.placed) != pp_.rank ||
                       (tp_.rank > 0 && !tensors_.is_cut(one.name())) || (ep_.rank > 0 && !is_expert(one));
  if (is_copy) return std::nullopt;
  const std::vector<int64_t>& sizes = one.placed->sizes;
  const at::Tensor whole = at::empty(sizes, at::TensorOptions(at::kMeta));
  // Scalars and tensors without elements are stored by the first rank of the axis shard.
  if (whole.numel() == 0 || sizes.empty()) {
    if (shard_.rank > 0) return std::nullopt;
    return StatePart{kind, whole_part(name, values.view(sizes))};
  }
  const at::Tensor place = stored_part(one.name(), whole);
  if (place.numel() == 0) return std::nullopt;
  return StatePart{kind, {name, values.view(place.sizes()), first_of(place, sizes), sizes}};
}

std::optional<std::vector<StatePart>> Layout::stored_parts() {
  const at::NoGradGuard no_grad;
  std::vector<StatePart> all;
  const auto add = [&](std::optional<StatePart> part) {
    if (part) all.push_back(std::move(*part));
  };
  for (const auto& [name, tensor] : replica_.parameters())
    for (const Held& one : own_)
      if (one.placed->tensor.is_same(tensor)) add(part_of(one, StatePart::Kind::parameter, name, one.stored));
  const NamedTensors own = optimizer_->state();
  for (const Held& one : trainable())
    for (const Slot slot : state_slots(workload_.optimizer()))
      if (const at::Tensor* found = slot == Slot::step ? nullptr : find(own, state_name(one.name(), slot)))
        add(part_of(one, StatePart::Kind::state, state_name(one.name(), slot), *found));
  // Step counts and buffers are small: the first rank stores them whole.
  NamedTensors counts, found = buffers();
  if (std::ranges::count(state_slots(workload_.optimizer()), Slot::step) > 0) counts = step_counts(own);
  if (mesh_.group() && mesh_.group()->getRank() > 0) return all;
  const auto add_whole = [&](StatePart::Kind kind, const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) all.push_back({kind, whole_part(name, tensor)});
  };
  add_whole(StatePart::Kind::state, counts);
  add_whole(StatePart::Kind::buffer, found);
  return all;
}

KeptTensors Layout::kept_tensors() {
  KeptTensors kept{.state = optimizer_->state()};
  for (const Held& one : own_) {
    kept.parameters.emplace_back(one.name(), one.stored);
    kept.gradients.emplace_back(one.name(), one.stored.grad());
  }
  for (const Placed& one : buffers_) kept.buffers.emplace_back(one.name, one.tensor);
  return kept;
}

}  // namespace dpbench::layout
