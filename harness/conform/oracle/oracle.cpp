#include "harness/conform/oracle/oracle.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <set>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/exception_text.h"
#include "harness/conform/evidence/widened.h"
#include "strategies/api/trained_parameters.h"
#include "workloads/layers/autocast.h"
#include "workloads/layers/onednn.h"

namespace dpbench {
namespace {

template <class Items>
void load(const Items& mine, const NamedTensors& values) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, value] : values)
    if (const at::Tensor* target = mine.find(name)) target->copy_(value);
}

// Converts floating-point parameters and buffers to float64. Module::to(dtype) would also convert integer counters.
void widen(Model& model) {
  for (auto& item : model.named_parameters())
    if (item.value().is_floating_point()) item.value().set_data(item.value().to(at::kDouble));
  for (auto& item : model.named_buffers())
    if (item.value().is_floating_point()) item.value().set_data(item.value().to(at::kDouble));
}

void narrow_matrices(Model& model, at::ScalarType dtype) {
  for (at::Tensor& parameter : model.parameters())
    if (parameter.is_floating_point() && parameter.dim() >= 2) parameter.set_data(parameter.to(dtype));
}

// Returns the state of the generator from which modules on the CPU draw random numbers.
at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

// A training pass of a new model over two samples, on the CPU.
struct TrialPass {
  std::optional<std::string> error;  // the model's exception
  at::Tensor loss;
  bool draws = false;  // true if the pass drew random numbers from torch's generator

  TrialPass(const Workload& workload, at::ScalarType dtype) {
    // A negative step number: in such a step, an exception in a Python model prints no traceback. A model may refuse
    // float64.
    constexpr int64_t trial = -1;
    try {
      const std::vector<std::vector<Batch>> micro = {{workload.batch(at::arange(2))}};
      const std::vector<NamedTensors> initial(1);
      Oracle oracle(workload, dtype, 0, Oracle::Replicas());
      const at::Tensor before = generator_state();
      loss = oracle.shards(trial, micro, Coupling::none, initial, initial).at(0).loss;
      draws = !at::equal(before, generator_state());
    } catch (const std::exception& thrown) {
      error = message_of(thrown);
    }
  }
};

}  // namespace

Oracle::Oracle(const Workload& workload, at::ScalarType dtype, uint64_t step_seed, const Replicas& replicas,
               Sample sample)
    : workload_(workload),
      dtype_(dtype),
      step_seed_(step_seed),
      onednn_(replicas.onednn),
      device_(replicas.device),
      sample_(sample),
      model_(workload.model(0)) {
  model_->recompute(0);
  if (dtype == at::kDouble) widen(*model_);
  if (dtype == at::kBFloat16 && replicas.used_in) narrow_matrices(*model_, *replicas.used_in);
  model_->to(device_);
  trainable_ = trained_parameters(*model_);
  for (const auto& [name, tensor] : trainable_) names_.push_back(name);
}

Batch Oracle::cast(const Batch& batch) const {
  const auto here = [&](const at::Tensor& tensor) {
    return tensor.defined() ? widened(tensor, dtype_).to(device_) : tensor;
  };
  return {here(batch.input), here(batch.target), batch.ids.defined() ? batch.ids.to(device_) : batch.ids};
}

at::Tensor Oracle::run(int64_t step, const Batch& batch) const {
  const Autocast autocast(dtype_ == at::kBFloat16, device_.type());
  const OneDnnProducts products(onednn_);
  const at::Tensor output = model_->forward(batch.input, Context{step_seed_, step, batch.ids});
  return dtype_ == at::kBFloat16 ? output.to(at::kFloat) : output;
}

Oracle::Parts Oracle::parts_of(const std::vector<Batch>& parts, int64_t k) const {
  Parts result;
  for (size_t r = 0; r < parts.size(); ++r) {
    if (!parts[r].ids.defined()) continue;
    result.batches.push_back(cast(parts[r]));
    result.shards.push_back({.replica = static_cast<int>(r),
                             .micro = k,
                             .terms = workload_.loss_terms(parts[r]),
                             .gradient = {},
                             .used = {},
                             .output = {},
                             .loss = {}});
  }
  return result;
}

// Loads a replica's parameters and buffers into the model.
void Oracle::enter(int replica) {
  const bool alike = parameters_->size() == 1;
  if (loaded_ < 0 || (!alike && loaded_ != replica))
    load(model_->named_parameters(), (*parameters_)[alike ? 0 : static_cast<size_t>(replica)]);
  loaded_ = replica;
  load(model_->named_buffers(), buffers_[static_cast<size_t>(replica)]);
  model_->zero_grad();
}

// Stores the model's buffers after a replica's forward pass as the buffers of this replica.
void Oracle::leave(int replica) {
  NamedTensors& kept = buffers_[static_cast<size_t>(replica)];
  kept.clear();
  for (const auto& item : model_->named_buffers()) kept.emplace_back(item.key(), item.value().clone());
}

void Oracle::keep_gradient(Shard& shard) {
  for (size_t p = 0; p < trainable_.size(); ++p) {
    const at::Tensor& parameter = trainable_[p].second;
    const bool defined = parameter.grad().defined();
    if (defined) used_[p] = true;
    shard.used.push_back(defined);
    const at::Tensor kept = sample_.of(parameter.detach());
    shard.gradient.push_back((defined ? sample_.of(parameter.grad()).clone() : at::zeros_like(kept)).cpu());
  }
}

void Oracle::pass_alone(int64_t step, const Batch& batch, Shard& shard) {
  enter(shard.replica);
  const at::Tensor output = run(step, batch), loss = workload_.loss(output, batch.target);
  leave(shard.replica);
  loss.backward();
  keep_gradient(shard);
  shard.output = output.detach().cpu(), shard.loss = loss.detach().cpu();
}

// Computes one loss over the outputs of all replicas. The first pass of each replica computes its output and the
// loss's gradient with respect to it. The second pass computes the gradients of the parameters.
void Oracle::pass_through_one_loss(int64_t step, Parts& parts) {
  std::vector<at::Tensor> outputs, targets;
  for (size_t i = 0; i < parts.shards.size(); ++i) {
    enter(parts.shards[i].replica);
    outputs.push_back(run(step, parts.batches[i]).detach().requires_grad_());
    targets.push_back(parts.batches[i].target);
  }
  const at::Tensor loss = workload_.loss(at::cat(outputs), at::cat(targets));
  loss.backward();
  for (size_t i = 0; i < parts.shards.size(); ++i) {
    Shard& shard = parts.shards[i];
    enter(shard.replica);
    const at::Tensor output = run(step, parts.batches[i]);
    leave(shard.replica);
    output.backward(outputs[i].grad());
    keep_gradient(shard);
    shard.output = output.detach(), shard.loss = loss.detach();
  }
}

void Oracle::pass_as_one_batch(int64_t step, Parts& parts) {
  std::vector<at::Tensor> inputs, ids;
  std::vector<int64_t> rows;
  for (const Batch& batch : parts.batches)
    inputs.push_back(batch.input), ids.push_back(batch.ids), rows.push_back(batch.samples());
  enter(0);
  const auto outputs = run(step, {at::cat(inputs), {}, at::cat(ids)}).split_with_sizes(rows);
  leave(0);
  for (size_t i = 0; i < parts.shards.size(); ++i) {
    model_->zero_grad();
    const at::Tensor loss = workload_.loss(outputs[i], parts.batches[i].target);
    loss.backward({}, /*retain_graph=*/true);
    keep_gradient(parts.shards[i]);
    parts.shards[i].output = outputs[i].detach(), parts.shards[i].loss = loss.detach();
  }
}

std::vector<Shard> Oracle::shards(int64_t step, const std::vector<std::vector<Batch>>& micro, Coupling coupling,
                                  const std::vector<NamedTensors>& parameters,
                                  const std::vector<NamedTensors>& buffers) {
  parameters_ = &parameters;
  loaded_ = -1;
  buffers_.assign(buffers.size(), {});
  for (size_t r = 0; r < buffers.size(); ++r) {
    load(model_->named_buffers(), buffers[r]);
    leave(static_cast<int>(r));
  }
  model_->train();
  used_.assign(names_.size(), false);
  std::vector<Shard> result;
  for (size_t k = 0; k < micro.size(); ++k) {
    Parts parts = parts_of(micro[k], static_cast<int64_t>(k));
    if (parts.shards.empty()) continue;
    if (coupling == Coupling::batch)
      pass_as_one_batch(step, parts);
    else if (coupling == Coupling::loss && parts.shards.size() > 1)
      pass_through_one_loss(step, parts);
    else
      for (size_t i = 0; i < parts.shards.size(); ++i) pass_alone(step, parts.batches[i], parts.shards[i]);
    for (Shard& shard : parts.shards) result.push_back(std::move(shard));
  }
  return result;
}

at::Tensor Oracle::evaluate(const Batch& batch, const NamedTensors& parameters, const NamedTensors& buffers) {
  const at::NoGradGuard no_grad;
  load(model_->named_parameters(), parameters);
  load(model_->named_buffers(), buffers);
  model_->eval();
  return run(0, cast(batch));
}

std::optional<std::string> why_not_judged(const Workload& workload) {
  const TrialPass first(workload, at::kDouble);
  if (first.error) {
    if (TrialPass(workload, at::kFloat).error) return std::nullopt;
    return "the model does not run in float64, in which steps are judged: " + *first.error;
  }
  if (!first.draws) return std::nullopt;
  // Drawn numbers may have no effect: some models of the library transformers draw them even if their layerdrop is 0.
  // The model is refused only if other numbers change its loss. Several passes are run, because two passes may draw the
  // same mask by chance.
  constexpr int passes = 8;
  for (int i = 0; i < passes; ++i)
    if (const TrialPass next(workload, at::kDouble); !next.error && !at::equal(next.loss, first.loss))
      return "the model draws random numbers of its own (dropout other than nn.Dropout), so ranks cannot be compared "
             "with one device: set the rate of this dropout to 0, or use nn.Dropout";
  return std::nullopt;
}

std::vector<double> shares(const std::vector<Shard>& shards, Gradient meaning, int world, int64_t accumulate,
                           bool sum_loss) {
  double terms = 0;
  std::set<int> active;
  for (const auto& shard : shards) terms += static_cast<double>(shard.terms), active.insert(shard.replica);
  const auto micro = static_cast<double>(accumulate);
  std::vector<double> result;
  for (const auto& shard : shards) {
    switch (meaning) {
      case Gradient::gathered:
      case Gradient::sum:
        result.push_back(1 / micro);
        break;
      case Gradient::mean_of_means:
        result.push_back(1 / (micro * world));
        break;
      case Gradient::mean_of_active:
        result.push_back(1 / (micro * static_cast<double>(active.size())));
        break;
      case Gradient::local:
        result.push_back(1 / micro);
        break;
      case Gradient::global_mean:
        result.push_back(sum_loss ? 1 / micro : static_cast<double>(shard.terms) / terms);
        break;
    }
  }
  return result;
}

std::vector<at::Tensor> combine(const std::vector<Shard>& shards, const std::vector<double>& shares) {
  std::vector<at::Tensor> sum;
  for (size_t i = 0; i < shards.size(); ++i)
    for (size_t p = 0; p < shards[i].gradient.size(); ++p) {
      const at::Tensor part = shards[i].gradient[p].to(at::kDouble) * shares[i];
      if (i == 0)
        sum.push_back(part);
      else
        sum[p] = sum[p] + part;
    }
  return sum;
}

double norm(const std::vector<at::Tensor>& gradients) {
  double squares = 0;
  for (const auto& gradient : gradients)
    if (gradient.defined()) squares += gradient.to(at::kDouble).square().sum().item<double>();
  return std::sqrt(squares);
}

}  // namespace dpbench
