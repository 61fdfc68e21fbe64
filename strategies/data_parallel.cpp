// "dp": one process, a replica per device. Replicas, their threads and flat buffers stay between steps.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "strategies/comm/replica_link.h"
#include "strategies/flat.h"
#include "strategies/replica_threads.h"
#include "strategies/trained.h"

namespace dpbench {
namespace {

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

// Parameters and buffers once each: a tied tensor has one place.
std::vector<at::Tensor> state_of(const Replica& replica) {
  std::vector<at::Tensor> unique;
  const auto add = [&](const at::Tensor& tensor) {
    for (const at::Tensor& other : unique)
      if (other.is_same(tensor)) return;
    unique.push_back(tensor);
  };
  for (const auto& [name, tensor] : replica.parameters()) add(tensor);
  for (const auto& [name, tensor] : replica.buffers()) add(tensor);
  return unique;
}

// A replica whose state and gradients each lie in one buffer per dtype.
struct FlatReplica {
  FlatReplica(const Setup& setup, at::Device device)
      : replica(setup.workload, device, setup.dtype, setup.init_seed, setup.step_seed),
        state(state_of(replica)),
        gradients(tensors_of(replica.trainable())) {
    state.adopt(state_of(replica));
  }

  // The first backward pass makes gradients of its own: from then on they live in the flat buffer.
  void adopt_gradients() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < replica.trainable().size(); ++i) {
      at::Tensor& gradient = replica.trainable()[i].tensor.mutable_grad();
      at::Tensor place = gradients.views()[i];
      if (!gradient.defined() || gradient.is_alias_of(place)) continue;
      place.copy_(gradient);
      gradient = place;
    }
  }

  Replica replica;
  Flat state, gradients;
};

// NCCL wants a device for each replica; without it, or for virtual devices, replicas copy and add for themselves.
const ReplicaLink* link_between(const std::vector<at::Device>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!devices[i].is_cuda()) return nullptr;
    for (size_t j = 0; j < i; ++j)
      if (devices[i] == devices[j]) return nullptr;
  }
  return devices.size() > 1 ? nccl_replica_link() : nullptr;
}

Batch piece_of(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& ids, size_t i) {
  return {inputs[i], {}, ids[i]};
}

class DataParallel : public TrainedStrategy {
 public:
  explicit DataParallel(const Setup& setup)
      : TrainedStrategy(setup), threads_(static_cast<int>(setup.devices.size())), link_(link_between(setup.devices)) {
    for (const at::Device& device : setup.devices) replicas_.push_back(std::make_unique<FlatReplica>(setup, device));
    train(main());
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    StepResult result;
    int most = 1;
    for (size_t k = 0; k < micro.size(); ++k)
      most = std::max(most, run(result, step, micro[k], micro.size(), k == 0, phases));
    phases.enter(Phase::communication);
    reduce(most);
    apply_gradients(phases);
    return result;
  }


 private:
  const Replica& main() const { return replicas_[0]->replica; }

  // One forward and backward pass of all replicas; returns how many had rows.
  int run(StepResult& result, int64_t step, const Batch& batch, size_t micros, bool first, Phases& phases) {
    phases.enter(Phase::scatter);
    const auto pieces = static_cast<int64_t>(replicas_.size());
    const auto inputs = batch.input.chunk(pieces), ids = batch.ids.chunk(pieces);
    const int active = static_cast<int>(inputs.size());
    std::vector<at::Tensor> outputs(inputs.size());
    if (link_) broadcast_state();
    phases.enter(Phase::forward);
    threads_.run(static_cast<int>(pieces), [&](int i) {
      const auto index = static_cast<size_t>(i);
      FlatReplica& mine = *replicas_[index];
      if (first) mine.gradients.zero();
      if (i >= active) return;
      if (i > 0 && !link_) mine.state.copy_from(replicas_[0]->state);
      outputs[index] = mine.replica.forward(step, mine.replica.to_device(piece_of(inputs, ids, index)));
    });
    phases.enter(Phase::backward);
    const auto slopes = loss_slopes(result, outputs, batch, micros);
    threads_.run(active, [&](int i) {
      const auto index = static_cast<size_t>(i);
      torch::autograd::backward({outputs[index]}, {slopes[index].to(outputs[index].device())});
      replicas_[index]->adopt_gradients();
    });
    return active;
  }

  // One loss on the gathered output; its slope by each replica's output is where the replicas' backward passes begin.
  std::vector<at::Tensor> loss_slopes(StepResult& result, const std::vector<at::Tensor>& outputs, const Batch& batch,
                                      size_t micros) {
    std::vector<at::Tensor> gathered;
    std::vector<int64_t> rows;
    for (const at::Tensor& output : outputs) {
      gathered.push_back(output.detach().to(main().device()));
      rows.push_back(output.size(0));
    }
    at::Tensor output = at::cat(gathered).requires_grad_();
    const at::Tensor loss = loss_of(output, main().to_device({{}, batch.target, {}}).target, micros);
    loss.backward();
    add_micro(result, output, loss);
    return output.grad().split_with_sizes(rows);
  }

  // The buffers of one dtype, of every replica.
  std::vector<at::Tensor> across(Flat FlatReplica::*part, size_t buffer) const {
    std::vector<at::Tensor> buffers;
    for (const auto& one : replicas_) buffers.push_back(((*one).*part).buffers()[buffer]);
    return buffers;
  }

  void broadcast_state() const {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < replicas_[0]->state.buffers().size(); ++i) link_->broadcast(across(&FlatReplica::state, i));
  }

  void reduce_by_link() const {
    for (size_t i = 0; i < replicas_[0]->gradients.buffers().size(); ++i) {
      auto buffers = across(&FlatReplica::gradients, i);
      link_->reduce(buffers);
    }
  }

  // Every replica's thread sums a piece of all gradients, in replica order: the same bits in every run.
  void reduce(int active) {
    const at::NoGradGuard no_grad;
    std::vector<const Flat*> others;
    for (int i = 1; i < active; ++i) others.push_back(&replicas_[static_cast<size_t>(i)]->gradients);
    if (others.empty()) return;
    if (link_)
      reduce_by_link();  // a replica without rows adds zeros
    else
      threads_.run(active, [&](int i) { replicas_[0]->gradients.add_piece(others, i, active); });
    for (size_t i = 0; i < main().trainable().size(); ++i)
      if (used_by_any(i)) main().trainable()[i].tensor.mutable_grad() = replicas_[0]->gradients.views()[i];
  }

  bool used_by_any(size_t parameter) const {
    for (const auto& one : replicas_)
      if (one->replica.trainable()[parameter].tensor.grad().defined()) return true;
    return false;
  }

  std::vector<std::unique_ptr<FlatReplica>> replicas_;
  ReplicaThreads threads_;
  const ReplicaLink* link_;
};

const RegisterStrategy dp{
    {.name = "dp",
     .summary = "DataParallel: one process, a replica per device, one loss on the gathered output",
     .parallelism = Parallelism::replicas,
     .gradient = Gradient::gathered,
     .buffers = Buffers::first_replica,
     .make = make<DataParallel>}};

}  // namespace
}  // namespace dpbench
