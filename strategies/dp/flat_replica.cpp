#include "strategies/dp/flat_replica.h"

#include <algorithm>

#include <ATen/ATen.h>

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

}  // namespace

FlatReplica::FlatReplica(const Setup& setup, at::Device device, bool together)
    : replica(setup.workload, device, setup.dtype, setup.init_seed, setup.step_seed),
      parameters(unique_of(replica.parameters())) {
  std::vector<at::Tensor> buffers = unique_of(replica.buffers());
  if (together)
    buffers.insert(buffers.begin(), parameters.begin(), parameters.end());
  else
    lay_out(parameters);
  lay_out(buffers);
}

void FlatReplica::copy_from(const FlatReplica& main) {
  for (size_t i = reads_main ? 1 : 0; i < state.size(); ++i) state[i].copy_from(main.state[i]);
}

void FlatReplica::read_from(const FlatReplica& main) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].set_data(main.state[0].views()[i]);
    versions.push_back(parameters[i]._version());
  }
  reads_main = true;
}

void FlatReplica::require_unwritten() const {
  for (size_t i = 0; i < versions.size(); ++i)
    if (parameters[i]._version() != versions[i])
      throw std::runtime_error("dp: the model has written to a parameter of its own, and had not done so in its first step: "
                               "replicas on the CPU then read one set of parameters");
}

void FlatReplica::pack_gradients() {
  if (!gradients) gradients.emplace(tensors_of(replica.trainable()));
  for (size_t i = 0; i < replica.trainable().size(); ++i) {
    at::Tensor place = gradients->views()[i];
    const at::Tensor& gradient = gradient_of(i);
    gradient.defined() ? place.copy_(gradient, /*non_blocking=*/true) : place.zero_();
  }
}

}  // namespace dpbench::dp
