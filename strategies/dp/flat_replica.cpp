#include "strategies/dp/flat_replica.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include "workloads/base/hash.h"

namespace dpbench::dp {
namespace {

// Returns the tensors without duplicates: a tied parameter, which has several names, gets only one place in the flat
// buffer.
std::vector<at::Tensor> unique_of(const NamedTensors& named) {
  std::vector<at::Tensor> unique;
  for (const auto& [name, tensor] : named)
    if (std::none_of(unique.begin(), unique.end(), [&](const at::Tensor& other) { return other.is_same(tensor); }))
      unique.push_back(tensor);
  return unique;
}

std::vector<at::Tensor> state_of(const Replica& replica) {
  std::vector<at::Tensor> all = unique_of(replica.parameters());
  const std::vector<at::Tensor> buffers = unique_of(replica.buffers());
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

bool same_form(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

bool is_same_view(const at::Tensor& tensor, const at::Tensor& home) {
  return tensor.const_data_ptr() == home.const_data_ptr() && same_form(tensor, home) &&
         tensor.strides() == home.strides();
}

std::string form_of(const at::Tensor& tensor) { return c10::str(tensor.scalar_type(), " ", tensor.sizes()); }

}  // namespace

FlatReplica::FlatReplica(const Setup& setup, at::Device device)
    : replica(setup.workload, device, setup.dtype, setup.init_seed, setup.step_seed),
      parameters(unique_of(replica.parameters())),
      tensors(state_of(replica)),
      state(tensors),
      home_views(state.views()) {
  state.adopt(tensors);
  flat_buffers = state.tail_from(parameters.size());
}

bool FlatReplica::restore_views(bool with_values) {
  const at::NoGradGuard no_grad;
  bool parameter = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor &tensor = tensors[i], &home = home_views[i];
    if (is_same_view(tensor, home)) continue;
    if (with_values && !same_form(tensor, home))
      throw std::runtime_error("dp: the model replaced " + name_of(tensor) + " (" + form_of(home) + ") by " +
                               form_of(tensor) +
                               ". Replicas persist between steps, so shape and type must not change.");
    if (with_values) home.copy_(tensor);
    tensor.set_data(home);
    parameter = parameter || i < parameters.size();
  }
  return parameter;
}

std::string FlatReplica::name_of(const at::Tensor& tensor) const {
  for (const NamedTensors& all : {replica.parameters(), replica.buffers()})
    for (const auto& [name, other] : all)
      if (other.is_same(tensor)) return name;
  return "a tensor";
}

void FlatReplica::begin_step(bool several) {
  replica.clear_gradients();
  up_to_date = false;
  if (several) save_versions();
}

void FlatReplica::copy_from(const FlatReplica& main, bool parameters_again) {
  const bool with_parameters = !shares_main && (!up_to_date || parameters_again);
  const auto& mine = flat_state(with_parameters);
  const auto& theirs = main.flat_state(with_parameters);
  for (size_t i = 0; i < mine.size(); ++i) mine[i].copy_(theirs[i], /*non_blocking=*/true);
  up_to_date = true;
}

uint64_t FlatReplica::parameters_hash() const {
  uint64_t hash = 0;
  for (const at::Tensor& parameter : parameters) {
    // The parameter's bytes have no gaps, because it is a dense view of a flat buffer.
    const auto* const bytes = static_cast<const char*>(parameter.const_data_ptr());
    for (size_t at = 0; at < parameter.nbytes(); at += sizeof hash) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + at, std::min(sizeof word, parameter.nbytes() - at));
      hash = mix64(hash ^ word);
    }
  }
  return hash;
}

void FlatReplica::share_parameters_of(const FlatReplica& main) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].set_data(home_views[i] = main.state.views()[i]);
  save_versions();
  shares_main = true;
}

void FlatReplica::save_versions() {
  versions.clear();
  for (const at::Tensor& parameter : parameters) versions.push_back(parameter._version());
}

bool FlatReplica::parameters_written() const {
  for (size_t i = 0; i < versions.size(); ++i)
    if (parameters[i]._version() != versions[i]) return true;
  return false;
}

void FlatReplica::require_unwritten() const {
  if (shares_main && parameters_written())
    throw std::runtime_error(
        "dp: the model has written to a parameter of its own, but not in its first step. After that step replicas on "
        "the CPU share one set of parameters.");
}

void FlatReplica::pack_gradients() {
  if (!gradients) gradients.emplace(tensors_of(replica.trainable()));
  std::vector<at::Tensor> targets, sources;
  for (size_t i = 0; i < replica.trainable().size(); ++i) {
    at::Tensor target = gradients->views()[i];
    if (const at::Tensor& gradient = gradient_of(i); gradient.defined())
      targets.push_back(target), sources.push_back(gradient);
    else
      target.zero_();
  }
  if (!targets.empty()) at::_foreach_copy_(targets, sources, /*non_blocking=*/true);
}

}  // namespace dpbench::dp
