#include "strategies/tensor/tensor_parallel.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/backward.h"
#include "strategies/exchange/broadcast.h"
#include "strategies/exchange/share.h"
#include "strategies/parts/flat.h"
#include "strategies/parts/same_model.h"
#include "strategies/parts/shard_sums.h"
#include "strategies/unused_parameters.h"
#include "workloads/base/error.h"

namespace dpbench::tensor {
namespace {

TensorPlan checked_plan(const Model& model, const Axis& axis, const Options& options) {
  if (axis.size == 1) return {};
  TensorPlan plan = model.tensor_plan(axis.size);
  if (plan.cuts.empty()) throw UsageError("tp: this model has no layers that can be divided among ranks");
  if (options.sequence && plan.tokens == 0)
    throw UsageError("tp.sequence=on: the activations of this model have no sequence that can be cut");
  return plan;
}

const std::string& first_name(const NamedTensors& tensors, const at::Tensor& tensor) {
  return std::ranges::find_if(tensors, [&](const auto& one) { return one.second.is_same(tensor); })->first;
}

}  // namespace

TensorParallel::TensorParallel(const Setup& setup)
    : workload_(setup.workload),
      options_(options_of(setup.params)),
      mesh_(setup.mesh),
      axis_(mesh_.axis("tp")),
      replicas_(mesh_.axis("dp")),
      replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed),
      clip_norm_(setup.clip_norm),
      plan_(checked_plan(*replica_.shared_model(), axis_, options_)),
      tensors_(plan_, axis_) {
  replica_.trainable_tensors("tp");  // throws if nothing is trainable
  if (axis_.size == 1) options_.sequence = false;
  if (mesh_.group()) {
    require_same_model(*mesh_.group(), replica_);
    broadcast_from(0, mesh_.group(), replica_.detached());
  }
  tensors_.cut(*replica_.shared_model());
  optimizer_.emplace(workload_.optimizer(), replica_.trainable());
}

StepResult TensorParallel::step(int64_t step, std::span<const Batch> micro, Phases& phases) {
  if (micro.empty()) throw std::runtime_error("tp: this rank has no samples in step " + std::to_string(step));
  replica_.clear_gradients();
  phases.enter(Phase::communication);
  if (const auto buffers = replica_.buffer_list(); replicas_.size > 1 && !buffers.empty())
    broadcast_from(0, replicas_.group, buffers);
  StepResult result;
  for (const Batch& one : micro) {
    phases.enter(Phase::data);
    const Batch batch = replica_.to_device(one);
    phases.enter(Phase::forward);
    const auto split = exchange(batch, &phases);
    const at::Tensor output = replica_.forward(step, batch, split);
    at::Tensor loss = loss_of(output, batch.target, split.get(), micro.size());
    phases.enter(Phase::backward);
    backward(loss);
    add_micro(result, output.detach(), std::move(loss));
  }
  const at::NoGradGuard no_grad;
  phases.enter(Phase::communication);
  sum_partial();
  average_over_replicas();
  if (options_.verify) verify();
  if (clip_norm_) clip();
  phases.enter(Phase::optimizer);
  optimizer_->step(step);
  if (const auto split = exchange(micro.back(), nullptr))
    result.gather_output = [this, split, piece = std::move(result.output)] {
      const at::NoGradGuard no_gradient;
      return workload_.joined_output(piece, *split);
    };
  return result;
}

at::Tensor TensorParallel::forward(const Batch& mine) {
  const at::NoGradGuard no_grad;
  const auto& model = replica_.shared_model();
  model->eval();
  at::Tensor output;
  const auto shared = [&](const at::Tensor& tensor, int rank) {
    return share(tensor.defined() ? tensor.to(replica_.device()) : tensor, rank, axis_, replica_.device());
  };
  for (int rank = 0; rank < axis_.size; ++rank) {
    const Batch batch = replica_.to_device({shared(mine.input, rank), {}, shared(mine.ids, rank)});
    const auto split = exchange(batch, nullptr);
    at::Tensor found = replica_.forward(/*step=*/0, batch, split);
    if (split) found = workload_.joined_output(found, *split);
    if (rank == axis_.rank) output = found;
  }
  model->train();
  return output;
}

NamedTensors TensorParallel::parameters() {
  const at::NoGradGuard no_grad;
  const NamedTensors own = replica_.parameters();
  NamedTensors all;
  for (const auto& [name, tensor] : own) all.emplace_back(name, tensors_.whole(first_name(own, tensor), tensor));
  return all;
}

NamedTensors TensorParallel::gradients() {
  const at::NoGradGuard no_grad;
  NamedTensors all;
  for (const auto& [name, tensor] : replica_.trainable()) all.emplace_back(name, tensors_.whole(name, tensor.grad()));
  return all;
}

NamedTensors TensorParallel::buffers() {
  const at::NoGradGuard no_grad;
  NamedTensors all;
  for (const auto& [name, tensor] : replica_.buffers()) all.emplace_back(name, tensors_.whole(name, tensor));
  return all;
}

NamedTensors TensorParallel::state() {
  const at::NoGradGuard no_grad;
  const NamedTensors own = optimizer_->state();
  NamedTensors all;
  for (const std::string& slot : state_slots(workload_.optimizer()))
    for (const auto& [name, tensor] : replica_.trainable()) {
      const std::string full = name + "." + slot;
      if (const at::Tensor* mine = find(own, full))
        all.emplace_back(full, slot == "step" ? *mine : tensors_.whole(name, *mine));
    }
  return all;
}

void TensorParallel::load(const Snapshot& snapshot) {
  // Copies, so that a snapshot that does not fit changes nothing.
  const auto copies = [](NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) tensor = tensor.detach().clone();
    return tensors;
  };
  const NamedTensors parameters_wanted = copies(parameters()), buffers_wanted = copies(buffers()),
                     state_wanted = copies(state());
  load_into(parameters_wanted, snapshot.parameters, "parameter");
  load_into(state_wanted, snapshot.state, "optimizer state");
  load_into(buffers_wanted, snapshot.buffers, "buffer");
  const at::NoGradGuard no_grad;
  const NamedTensors own = replica_.parameters(), own_state = optimizer_->state();
  for (const auto& [name, tensor] : own)
    tensor.detach().copy_(tensors_.piece(first_name(own, tensor), *find(parameters_wanted, name)));
  for (const auto& [name, tensor] : replica_.buffers())
    tensor.detach().copy_(tensors_.piece(name, *find(buffers_wanted, name)));
  for (const auto& [name, tensor] : replica_.trainable())
    for (const std::string& slot : state_slots(workload_.optimizer())) {
      const std::string full = name + "." + slot;
      const at::Tensor *mine = find(own_state, full), *value = find(state_wanted, full);
      if (mine && value) mine->copy_(slot == "step" ? *value : tensors_.piece(name, *value));
    }
}

std::shared_ptr<const TensorSplit> TensorParallel::exchange(const Batch& batch, Phases* phases) const {
  if (axis_.size == 1) return nullptr;
  Options options = options_;
  if (!phases) options.sequence = false;  // an evaluation keeps no activations
  const int64_t tokens = batch.input.dim() > 1 ? batch.input.size(1) : 1;
  if (options.sequence && tokens < axis_.size)
    throw UsageError("tp.sequence=on: a sequence of " + std::to_string(tokens) + " tokens for " +
                     std::to_string(axis_.size) + " ranks");
  return std::make_shared<Exchange>(axis_, options, tokens, phases);
}

at::Tensor TensorParallel::loss_of(const at::Tensor& output, const at::Tensor& target, const TensorSplit* split,
                                   size_t micros) const {
  const at::Tensor loss = split ? workload_.split_loss(output, target, *split) : workload_.loss(output, target);
  return micros > 1 ? loss / static_cast<double>(micros) : loss;
}

std::vector<std::string> TensorParallel::partial() const {
  if (!options_.sequence) return plan_.partial;
  // On a piece of the sequence, the gradient of a whole parameter covers the piece's tokens alone.
  std::vector<std::string> names;
  for (const auto& [name, tensor] : replica_.trainable())
    if (!tensors_.is_cut(name)) names.push_back(name);
  return names;
}

void TensorParallel::sum_partial() const {
  std::vector<Parameter> summed;
  const std::vector<std::string> names = partial();
  for (const Parameter& one : replica_.trainable())
    if (std::ranges::count(names, one.name) > 0) summed.push_back(one);
  sum_gradients(gradients_of(summed), axis_, 1);
}

void TensorParallel::average_over_replicas() const {
  if (replicas_.size == 1) return;
  refuse_unused();
  sum_gradients(gradients_of(replica_.trainable()), replicas_, replicas_.size);
}

void TensorParallel::sum_gradients(const std::vector<at::Tensor>& gradients, const Axis& axis, double divisor) const {
  if (axis.size == 1 || gradients.empty()) return;
  const Flat flat(gradients);
  for (size_t i = 0; i < gradients.size(); ++i) flat.views()[i].copy_(gradients[i]);
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  for (const at::Tensor& buffer : flat.buffers()) {
    std::vector<at::Tensor> sum = {buffer};
    works.push_back(axis.group->allreduce(sum));
  }
  for (const auto& work : works) work->wait();
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i].copy_(divisor == 1 ? flat.views()[i] : flat.views()[i].div(divisor));
}

std::vector<at::Tensor> TensorParallel::gradients_of(const std::vector<Parameter>& parameters) const {
  std::vector<at::Tensor> gradients;
  for (const Parameter& one : parameters)
    if (one.tensor.grad().defined()) gradients.push_back(one.tensor.grad());
  return gradients;
}

void TensorParallel::refuse_unused() const {
  std::vector<std::string> unused;
  for (const auto& [name, tensor] : replica_.trainable())
    if (!tensor.grad().defined()) unused.push_back(name);
  if (!unused.empty()) dpbench::refuse_unused("tp", unused, ", which the axis dp needs");
}

void TensorParallel::verify() const {
  if (axis_.size == 1) return;
  for (const auto& [name, tensor] : replica_.trainable())
    if (!tensors_.is_cut(name) && tensor.grad().defined())
      require_equal(tensor.grad(), axis_, "tp.verify: the gradient of " + name);
}

void TensorParallel::clip() const {
  // Each element counts once: a whole parameter on the first rank of the axis tp.
  std::vector<at::Tensor> counted, copies;
  for (const auto& [name, tensor] : replica_.trainable())
    if (tensor.grad().defined()) (axis_.rank == 0 || tensors_.is_cut(name) ? counted : copies).push_back(tensor.grad());
  clip_parts(counted, *clip_norm_, replica_.device(), axis_.group.get(), copies);
}

namespace {

const RegisterStrategy tensor_parallel{
    {.name = "tp",
     .summary = "tensor parallel: each rank has a part of every divided layer, activations are summed over ranks",
     .parallelism = Parallelism::ranks,
     .gradient = Gradient::mean_of_means,
     .buffers = Buffers::rank0,
     .axes = {"tp", "dp"},
     .params = parameters(),
     .settings = {.small_buckets = {{"verify", "on"}}},
     .make = make<TensorParallel>,
     .traffic = traffic,
     .collective_evaluation = true,
     .promise = [](StrategyInfo&, const Params& params) { options_of(params); },
     .variants = {{"chunks", {{"chunks", "2"}}}}}};

}  // namespace
}  // namespace dpbench::tensor
