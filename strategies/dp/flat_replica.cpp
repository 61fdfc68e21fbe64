#include "strategies/dp/flat_replica.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <ATen/ATen.h>
#include <c10/util/StringUtil.h>

#include "workloads/base/hash.h"

namespace dpbench::dp {
namespace {

// Once each: a tied tensor has one place.
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

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}

bool lies_in(const at::Tensor& tensor, const at::Tensor& place) {
  return tensor.const_data_ptr() == place.const_data_ptr() && alike(tensor, place) &&
         tensor.strides() == place.strides();
}

std::string described(const at::Tensor& tensor) { return c10::str(tensor.scalar_type(), " ", tensor.sizes()); }

}  // namespace

FlatReplica::FlatReplica(const Setup& setup, at::Device device)
    : replica(setup.workload, device, setup.dtype, setup.init_seed, setup.step_seed),
      parameters(unique_of(replica.parameters())),
      tensors(state_of(replica)),
      state(tensors),
      places(state.views()) {
  state.adopt(tensors);
  behind_parameters = state.from(parameters.size());
}

bool FlatReplica::put_back(bool with_values) {
  const at::NoGradGuard no_grad;
  bool parameter = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor &tensor = tensors[i], &place = places[i];
    if (lies_in(tensor, place)) continue;
    if (with_values && !alike(tensor, place))
      throw std::runtime_error("dp: the model has put " + described(tensor) + " into " + name_of(tensor) +
                               ", which was " + described(place) +
                               ": replicas that stay from step to step keep its shape and type");
    if (with_values) place.copy_(tensor);
    tensor.set_data(place);
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
  if (several) note_versions();
}

void FlatReplica::copy_from(const FlatReplica& main, bool parameters_again) {
  const bool with_parameters = !reads_main && (!up_to_date || parameters_again);
  const auto& mine = state_in_pieces(with_parameters);
  const auto& theirs = main.state_in_pieces(with_parameters);
  for (size_t i = 0; i < mine.size(); ++i) mine[i].copy_(theirs[i], /*non_blocking=*/true);
  up_to_date = true;
}

uint64_t FlatReplica::bits_of_parameters() const {
  uint64_t hash = 0;
  for (const at::Tensor& parameter : parameters) {
    const auto* const bytes = static_cast<const char*>(parameter.const_data_ptr());  // dense, as all views of a Flat
    for (size_t at = 0; at < parameter.nbytes(); at += sizeof hash) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + at, std::min(sizeof word, parameter.nbytes() - at));
      hash = mix64(hash ^ word);
    }
  }
  return hash;
}

void FlatReplica::read_from(const FlatReplica& main) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].set_data(places[i] = main.state.views()[i]);
  note_versions();
  reads_main = true;
}

void FlatReplica::note_versions() {
  versions.clear();
  for (const at::Tensor& parameter : parameters) versions.push_back(parameter._version());
}

bool FlatReplica::written() const {
  for (size_t i = 0; i < versions.size(); ++i)
    if (parameters[i]._version() != versions[i]) return true;
  return false;
}

void FlatReplica::require_unwritten() const {
  if (reads_main && written())
    throw std::runtime_error(
        "dp: the model has written to a parameter of its own, and had not done so in its first step: "
        "replicas on the CPU then read one set of parameters");
}

void FlatReplica::pack_gradients() {
  if (!gradients) gradients.emplace(tensors_of(replica.trainable()));
  std::vector<at::Tensor> places, there;
  for (size_t i = 0; i < replica.trainable().size(); ++i) {
    at::Tensor place = gradients->views()[i];
    if (const at::Tensor& gradient = gradient_of(i); gradient.defined())
      places.push_back(place), there.push_back(gradient);
    else
      place.zero_();
  }
  if (!places.empty()) at::_foreach_copy_(places, there, /*non_blocking=*/true);
}

}  // namespace dpbench::dp
