#include "harness/worker/rank/group.h"

#include <ATen/ATen.h>
#include <torch/cuda.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "harness/report/record/case.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Creates the store through which the ranks meet. Ranks of an external launcher meet over TCP; ranks that dpbench
// starts use a file in the run's private directory, so no port is opened.
c10::intrusive_ptr<c10d::Store> make_store(const Variables& variables) {
  if (variables.world == 1) return c10::make_intrusive<c10d::HashStore>();
  if (!variables.rendezvous.host.empty()) {
    auto met = join_rendezvous(variables.rendezvous, variables.timeout);
    met->setTimeout(variables.timeout);
    return c10::make_intrusive<c10d::PrefixStore>(variables.group, met);
  }
  auto file = file_store(variables.run_dir + "/" + variables.group + ".store", variables.world);
  file->setTimeout(variables.timeout);
  // Prefix every key with the run's nonce (a random id), which separates this run from stale entries of earlier runs.
  return c10::make_intrusive<c10d::PrefixStore>(variables.nonce + "/" + variables.group, file);
}

at::Device device_at(Device kind, int index, bool oversubscribe) {
  if (kind == Device::cpu) return at::kCPU;
  const auto count = static_cast<int>(torch::cuda::device_count());
  if (count == 0) throw Unavailable("LibTorch sees no CUDA device");
  if (index >= count && !oversubscribe)
    throw Unavailable("cuda:" + std::to_string(index) + " does not exist: LibTorch sees " + std::to_string(count) +
                      " CUDA devices");
  return {at::kCUDA, static_cast<at::DeviceIndex>(index % count)};
}

}  // namespace

Group::Group(const Variables& variables, NoteCall note) : variables_(variables), store_(make_store(variables)) {
  if (variables.backend == no_backend) {
    check(variables.world == 1, "several ranks need a backend");
    return;
  }
  setup_ = {.store = c10::make_intrusive<c10d::PrefixStore>("backend", store_),
            .rank = variables.rank,
            .world = variables.world,
            .local_rank = variables.local_rank,
            .local_world = variables.local_world,
            .device = device_at(variables.device, variables.local_rank, /*oversubscribe=*/true),
            .timeout = variables.timeout,
            .directory = variables.run_dir,
            .cores = variables.cores,
            .note = std::move(note)};
  group_ = make_process_group(variables.backend, setup_);
}

Group::~Group() = default;

std::vector<at::Device> Group::devices(int count, bool oversubscribe) const {
  if (variables_.world > 1) return {device_at(variables_.device, variables_.local_rank, oversubscribe)};
  std::vector<at::Device> devices;
  for (int i = 0; i < count; ++i) devices.push_back(device_at(variables_.device, i, oversubscribe));
  return devices;
}

const Mesh& Group::mesh(const MeshShape& shape) const {
  const std::string text = text_of(shape);
  const auto known = meshes_.find(text);
  if (known != meshes_.end()) return known->second;
  Mesh made = make_mesh(shape);
  made.make_subgroups_by([this](const std::vector<int>& ranks, int number) { return subgroup(ranks, number); });
  return meshes_.emplace(text, std::move(made)).first->second;
}

Mesh Group::make_mesh(const MeshShape& shape) const {
  if (shape == MeshShape{{default_axis, world()}}) return {default_axis, group_};
  BackendSetup setup = setup_;
  setup.store = c10::make_intrusive<c10d::PrefixStore>("mesh/" + text_of(shape), store_);
  return {shape, group_, variables_.backend, setup};
}

c10::intrusive_ptr<c10d::ProcessGroup> Group::subgroup(const std::vector<int>& ranks, int number) const {
  const std::string name = name_of_ranks(ranks) + "/" + std::to_string(number);
  const auto known = subgroups_.find(name);
  if (known != subgroups_.end()) return known->second;
  BackendSetup setup = setup_;
  setup.store = c10::make_intrusive<c10d::PrefixStore>("subgroups", store_);
  return subgroups_[name] = make_process_group(variables_.backend, setup_of_ranks(ranks, name, setup));
}

void Group::barrier() const {
  // Call the backend directly, because ProcessGroup::barrier of torch 2.11 uses a static tensor, which is a data race
  // between threads.
  if (group_) group_->getDefaultBackend()->barrier()->wait();
}

int64_t Group::agree(int64_t value) const {
  if (!group_) return value;
  const auto device = device_at(variables_.device, variables_.local_rank, /*oversubscribe=*/true);
  std::vector<at::Tensor> box = {at::full({1}, value, at::TensorOptions().dtype(at::kLong).device(device))};
  group_->getDefaultBackend()->broadcast(box)->wait();
  return box[0].item<int64_t>();
}

void Group::sum(at::Tensor& values) const { reduce(values, c10d::ReduceOp::SUM); }

void Group::max(at::Tensor& values) const { reduce(values, c10d::ReduceOp::MAX); }

void Group::reduce(at::Tensor& values, c10d::ReduceOp::RedOpType op) const {
  if (!group_) return;
  std::vector<at::Tensor> box = {
      values.to(device_at(variables_.device, variables_.local_rank, /*oversubscribe=*/true))};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  group_->getDefaultBackend()->allreduce(box, options)->wait();
  values.copy_(box[0]);
}

void Group::broadcast(const std::vector<std::pair<std::string, at::Tensor>>& tensors) const {
  if (!group_) return;
  for (const auto& [name, tensor] : tensors) {
    std::vector<at::Tensor> box = {tensor.detach().contiguous()};
    group_->getDefaultBackend()->broadcast(box)->wait();
    tensor.detach().copy_(box[0]);
  }
}

std::vector<std::string> Group::gather(const std::string& text) const {
  if (variables_.world == 1) return {text};
  const std::string key = "gather" + std::to_string(gathered_++) + ".";
  if (variables_.rank != 0) {
    store_->set(key + std::to_string(variables_.rank), std::vector<uint8_t>(text.begin(), text.end()));
    return {};
  }
  std::vector<std::string> texts = {text};
  for (int rank = 1; rank < variables_.world; ++rank) {
    const auto bytes = store_->get(key + std::to_string(rank));
    texts.emplace_back(bytes.begin(), bytes.end());
    store_->deleteKey(key + std::to_string(rank));
  }
  return texts;
}

}  // namespace dpbench
