#include "strategies/api/parts/replica.h"

#include <optional>
#include <stdexcept>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include "strategies/api/backward.h"
#include "strategies/api/trained_parameters.h"
#include "workloads/base/error.h"
#include "workloads/base/runtime.h"
#include "workloads/layers/autocast.h"
#include "workloads/layers/onednn.h"

namespace dpbench {
namespace {

// Converts floating-point tensors only. Module::to(dtype) would also convert integer buffers such as counters.
void cast_floating(Model& model, at::ScalarType type) {
  const auto cast = [&](const auto& tensors) {
    for (at::Tensor tensor : tensors)
      if (tensor.is_floating_point()) tensor.set_data(tensor.to(type));
  };
  cast(model.parameters());
  cast(model.buffers());
}

}  // namespace

Replica::Replica(const Workload& workload, at::Device device, at::ScalarType dtype, uint64_t init_seed,
                 uint64_t step_seed)
    : model_(workload.model(init_seed)),
      device_(device),
      storage_(dtype == at::kBFloat16 ? at::kFloat : dtype),
      autocast_(dtype == at::kBFloat16),
      step_seed_(step_seed),
      copies_(device.is_cpu() ? nullptr : std::make_unique<BatchCopies>(device_, storage_)) {
  model_->to(device_);
  if (storage_ != at::kFloat) cast_floating(*model_, storage_);
  model_->train();
  for (const auto& [name, tensor] : trained_parameters(*model_)) trainable_.push_back({name, tensor});
}

ParamInfo onednn_param() {
  return {"onednn", "off", "on: use oneDNN for large float32 products of linear layers on the CPU; the bits differ"};
}
Variant onednn_variant() { return {"onednn", {{"onednn", "on"}}}; }
void promise_onednn(StrategyInfo& info, const Params& params) { info.onednn = params.flag("onednn"); }

void Replica::use_onednn(bool on, const std::string& owner) {
  if (on && !device_.is_cpu()) throw UsageError(owner + ".onednn=on needs CPU devices: a GPU uses cuBLAS");
  if (on && runtime() == Runtime::torch)
    throw UsageError(owner + ".onednn=on needs --runtime fast: torch's runtime uses LibTorch's own layers");
  if (on) onednn_product(at::zeros({1, 1}), at::zeros({1, 1}));
  onednn_ = on;
}

bool Replica::is_stored(const at::Tensor& tensor) const {
  return !tensor.defined() || !tensor.is_floating_point() || tensor.scalar_type() == storage_;
}

Batch Replica::to_device(const Batch& batch) const {
  if (copies_) {
    const auto there = copies_->to_device({batch.input, batch.target, batch.ids});
    return {there[0], there[1], there[2]};
  }
  const auto cast = [&](const at::Tensor& tensor) { return is_stored(tensor) ? tensor : tensor.to(storage_); };
  return {cast(batch.input), cast(batch.target), batch.ids};
}

// Calls forward(), with this replica's device as the current one and with its settings of autocast and oneDNN.
template <class Forward>
at::Tensor Replica::run(const Forward& forward) const {
  // Makes the replica's device current, because a model may create tensors on "cuda" without a device index.
  const c10::OptionalDeviceGuard guard(device_.is_cuda() ? std::optional(device_) : std::nullopt);
  const Autocast autocast(autocast_, device_.type());
  const OneDnnProducts products(onednn_);
  return forward();
}

at::Tensor Replica::forward(int64_t step, const Batch& batch, const ModelSplit& split) const {
  return run([&] {
    at::Tensor output = model_->forward(batch.input, {step_seed_, step, batch.ids, split});
    return autocast_ ? output.to(at::kFloat) : output;
  });
}

at::Tensor Replica::forward_span(size_t first, size_t last, const at::Tensor& x, int64_t step, const at::Tensor& ids,
                                 const ModelSplit& split) const {
  return run([&] {
    at::Tensor output = model_->forward_span(first, last, x, {step_seed_, step, ids, split});
    return autocast_ && last == model_->blocks().size() ? output.to(at::kFloat) : output;
  });
}

at::Tensor micro_loss(const Workload& workload, const at::Tensor& output, const at::Tensor& target, size_t micros,
                      const ModelSplit& split) {
  at::Tensor loss = split.cuts_output() ? workload.split_loss(output, target, split) : workload.loss(output, target);
  if (micros > 1) loss = loss / static_cast<double>(micros);
  return loss;
}

StepResult Replica::passes(const Workload& workload, int64_t step, std::span<const Batch> micro, Phases& phases) const {
  StepResult result;
  for (const Batch& batch : micro) {
    phases.enter(Phase::data);
    Batch moved;
    const bool stays = device_.is_cpu() && is_stored(batch.input) && is_stored(batch.target);
    if (!stays) moved = to_device(batch);
    // The batch is taken by reference, because a copy would take a measurable part of a step of 10 us.
    const Batch& mine = stays ? batch : moved;
    phases.enter(Phase::forward);
    at::Tensor output = forward(step, mine);
    at::Tensor loss = micro_loss(workload, output, mine.target, micro.size());
    phases.enter(Phase::backward);
    backward(loss);
    add_micro(result, std::move(output), std::move(loss));
  }
  return result;
}

at::Tensor Replica::evaluate(const Batch& batch) const {
  const at::NoGradGuard no_grad;
  model_->eval();
  at::Tensor output = forward(/*step=*/0, to_device(batch));
  model_->train();
  return output;
}

std::vector<at::Tensor> Replica::trainable_tensors(const std::string& who) const {
  if (trainable_.empty()) throw std::runtime_error(who + ": no parameter of this model requires a gradient");
  return tensors_of(trainable_);
}

std::vector<at::Tensor> Replica::detached() const {
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : parameters()) all.push_back(tensor.detach());
  for (const at::Tensor& tensor : buffer_list()) all.push_back(tensor);
  return all;
}

std::vector<at::Tensor> Replica::buffer_list() const {
  // Returns the model's own tensors, not aliases: if a forward pass replaces a buffer through set_data(), the caller
  // sees the new data.
  return model_->buffers();
}

void Replica::clear_gradients() const {
  for (const auto& [name, tensor] : trainable_) tensor.mutable_grad().reset();
}

NamedTensors Replica::parameters() const {
  NamedTensors named;
  for (const auto& item : model_->named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

NamedTensors Replica::gradients() const {
  NamedTensors named;
  for (const auto& [name, tensor] : trainable_) named.emplace_back(name, tensor.grad());
  return named;
}

NamedTensors Replica::buffers() const {
  NamedTensors named;
  for (const auto& item : model_->named_buffers()) named.emplace_back(item.key(), item.value());
  return named;
}

}  // namespace dpbench
