#include "strategies/fsdp/unit.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

namespace dpbench::fsdp {
namespace {

at::ScalarType gathered_as(const Parameter& parameter, const Storage& storage) {
  return gathered_dtype(parameter.tensor, parameter.tensor.scalar_type(), storage.gathered);
}

}  // namespace

Unit::Unit(std::string name, const std::vector<Parameter>& parameters, const Storage& storage)
    : name_(std::move(name)) {
  for (const Parameter& parameter : parameters) {
    const auto same = [&](const Bundle& bundle) {
      const Parameter& first = bundle.parameters[0];
      return first.tensor.scalar_type() == parameter.tensor.scalar_type() &&
             gathered_as(first, storage) == gathered_as(parameter, storage) &&
             storage.is_part(first.tensor) == storage.is_part(parameter.tensor);
    };
    auto bundle = std::ranges::find_if(bundles_, same);
    if (bundle == bundles_.end()) bundle = bundles_.insert(bundle, Bundle{});
    if (parameter.tensor.requires_grad()) bundle->trained.push_back(bundle->parameters.size());
    bundle->parameters.push_back(parameter);
  }
  for (Bundle& bundle : bundles_) {
    std::vector<at::Tensor> trained;
    for (const size_t i : bundle.trained) trained.push_back(bundle.parameters[i].tensor);
    Storage own = storage;
    if (storage.gathered) own.gathered = gathered_as(bundle.parameters[0], storage);
    if (storage.is_part(bundle.parameters[0].tensor)) own.reduced.reset();
    // The ShardedGradients are made first: they need the parameters' original dtypes, which ShardedParameters change.
    if (!trained.empty()) bundle.gradients.emplace(trained, own);
    bundle.values.emplace(tensors_of(bundle.parameters), own);
  }
}

bool Unit::is_whole() const {
  return std::ranges::all_of(bundles_, [](const Bundle& bundle) { return bundle.values->is_whole(); });
}

int64_t Unit::held_bytes() const {
  int64_t bytes = 0;
  for (const Bundle& bundle : bundles_) bytes += bundle.values->held_bytes();
  return bytes;
}

int64_t Unit::buffer_bytes() const {
  int64_t bytes = 0;
  for (const Bundle& bundle : bundles_) bytes += bundle.values->buffer_bytes();
  return bytes;
}

std::vector<at::Tensor> Unit::kept_parts() const {
  std::vector<at::Tensor> parts;
  for (const Bundle& bundle : bundles_)
    if (bundle.values->kept_part().defined()) parts.push_back(bundle.values->kept_part());
  return parts;
}

void Unit::begin_gather() {
  for (Bundle& bundle : bundles_) bundle.values->begin_gather();
}

void Unit::gather() {
  for (Bundle& bundle : bundles_) bundle.values->gather();
}

void Unit::free() {
  for (Bundle& bundle : bundles_) bundle.values->free();
}

void Unit::free_between() {
  for (Bundle& bundle : bundles_) bundle.values->free_between();
}

void Unit::begin_update() {
  for (Bundle& bundle : bundles_) bundle.values->begin_update();
}

void Unit::begin_reduce(double share) {
  for (Bundle& bundle : bundles_)
    if (bundle.gradients) bundle.gradients->begin_reduce(share);
}

void Unit::finish_reduce(bool last) {
  for (Bundle& bundle : bundles_)
    if (bundle.gradients) bundle.gradients->finish_reduce(last);
}

void Unit::finish() {
  for (Bundle& bundle : bundles_)
    if (bundle.gradients) bundle.gradients->finish();
}

void Unit::clear_gradients() {
  for (Bundle& bundle : bundles_)
    if (bundle.gradients) bundle.gradients->clear();
}

std::vector<ShardedParameter> Unit::parameters_of(const Bundle& bundle) {
  std::vector<ShardedParameter> all;
  for (size_t i = 0; i < bundle.parameters.size(); ++i)
    all.push_back(
        {.name = bundle.parameters[i].name, .parameter = bundle.parameters[i].tensor, .rows = bundle.values->rows(i)});
  for (size_t k = 0; k < bundle.trained.size(); ++k) {
    ShardedParameter& one = all[bundle.trained[k]];
    one.trained = true;
    one.used = bundle.gradients->used(k);
    const at::Tensor gradient = bundle.gradients->rows(k);
    if (gradient.defined()) one.gradient = gradient.view(one.rows.sizes());
  }
  return all;
}

std::vector<ShardedParameter> Unit::parameters() const {
  std::vector<ShardedParameter> all;
  for (const Bundle& bundle : bundles_)
    for (ShardedParameter& one : parameters_of(bundle)) all.push_back(std::move(one));
  return all;
}

std::optional<Unit::Place> Unit::find(const std::string& name) const {
  for (const Bundle& bundle : bundles_)
    for (size_t i = 0; i < bundle.parameters.size(); ++i)
      if (bundle.parameters[i].name == name) return Place{&bundle, i};
  return std::nullopt;
}

bool Unit::has(const std::string& name) const { return find(name).has_value(); }

void Unit::join(const ByName& rows, ByName& wholes) const {
  for (const Bundle& bundle : bundles_) {
    std::vector<at::Tensor> all;
    bool any = false;
    for (size_t i = 0; i < bundle.parameters.size(); ++i) {
      const auto mine = rows.find(bundle.parameters[i].name);
      any = any || mine != rows.end();
      all.push_back(mine != rows.end() ? mine->second : at::zeros_like(bundle.values->rows(i)));
    }
    if (!any) continue;
    const std::vector<at::Tensor> joined = bundle.values->joined(all);
    for (size_t i = 0; i < joined.size(); ++i)
      if (rows.contains(bundle.parameters[i].name)) wholes.emplace(bundle.parameters[i].name, joined[i]);
  }
}

at::Tensor Unit::rows_in(const std::string& name, const at::Tensor& whole) const {
  const Place place = find(name).value();
  return place.bundle->values->rows_in(whole, place.index);
}

void Unit::set(const std::string& name, const at::Tensor& whole) const {
  const Place place = find(name).value();
  place.bundle->values->set(place.index, whole);
}

}  // namespace dpbench::fsdp
