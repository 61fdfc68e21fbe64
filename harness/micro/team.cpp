#include "harness/micro/team.h"

#include <chrono>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "strategies/api/backend.h"

namespace dpbench::micro {
namespace {

CommBackend make_backend(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store, int rank, int world,
                         at::Device device) {
  const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name + std::to_string(world), store);
  return backend_registry().at(name).make({.store = prefixed,
                                           .rank = rank,
                                           .world = world,
                                           .local_rank = rank,
                                           .local_world = world,
                                           .device = device,
                                           .timeout = std::chrono::seconds(60),
                                           .directory = ""});
}

}  // namespace

Team::Team(int rank, int ranks, const std::string& file, at::Device device)
    : rank_(rank), ranks_(ranks), device_(device), store_(c10::make_intrusive<c10d::FileStore>(file, ranks)) {
  control_ = make_backend("gloo", c10::make_intrusive<c10d::PrefixStore>("control", store_), rank, ranks, at::kCPU);
}

CommBackend Team::backend(const std::string& name, int world) {
  CommBackend& found = backends_[{name, world}];
  if (!found) found = make_backend(name, store_, rank_, world, device_);
  return found;
}

double Team::sum(double value) {
  std::vector<at::Tensor> tensors{at::full({1}, value, at::kDouble)};
  control_->allreduce(tensors, {})->wait();
  return tensors[0].item<double>();
}

}  // namespace dpbench::micro
