#include "harness/conform/oracle/oracle.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <ATen/ATen.h>

#include "harness/conform/evidence/evidence.h"
#include "workloads/layers/autocast.h"
#include "workloads/layers/onednn.h"

namespace dpbench {
namespace {

// Returns the trainable parameters; a tensor with several names is listed once, under its first name.
std::vector<std::pair<std::string, at::Tensor>> trainable(const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> unique;
  for (const auto& item : model.named_parameters()) {
    const bool known = std::any_of(unique.begin(), unique.end(),
                                   [&](const auto& other) { return other.second.is_same(item.value()); });
    if (!known && item.value().requires_grad()) unique.emplace_back(item.key(), item.value());
  }
  return unique;
}

void load(Model& model, const NamedTensors& parameters, const NamedTensors& buffers) {
  const at::NoGradGuard no_grad;
  const auto fill = [](const auto& mine, const NamedTensors& values) {
    for (const auto& [name, value] : values)
      if (const at::Tensor* target = mine.find(name)) target->copy_(value);
  };
  fill(model.named_parameters(), parameters);
  fill(model.named_buffers(), buffers);
}

// Converts floating-point parameters and buffers to float64. Module::to(dtype) would also convert integer counters.
void widen(Model& model) {
  for (auto& item : model.named_parameters())
    if (item.value().is_floating_point()) item.value().set_data(item.value().to(at::kDouble));
  for (auto& item : model.named_buffers())
    if (item.value().is_floating_point()) item.value().set_data(item.value().to(at::kDouble));
}

}  // namespace

Oracle::Oracle(const Workload& workload, at::ScalarType dtype, uint64_t step_seed, int replicas, bool onednn)
    : workload_(workload), dtype_(dtype), step_seed_(step_seed), onednn_(onednn) {
  for (int r = 0; r < replicas; ++r) {
    models_.push_back(workload.model(0));
    if (dtype == at::kDouble) widen(*models_.back());
  }
  for (const auto& [name, tensor] : trainable(*models_.front())) names_.push_back(name);
}

Batch Oracle::cast(const Batch& batch) const {
  const auto convert = [&](const at::Tensor& tensor) {
    return tensor.is_floating_point() && dtype_ == at::kDouble ? tensor.to(at::kDouble) : tensor;
  };
  return {convert(batch.input), convert(batch.target), batch.ids};
}

at::Tensor Oracle::run(Model& model, int64_t step, const Batch& batch) const {
  const Autocast autocast(dtype_ == at::kBFloat16, at::kCPU);
  const OneDnnProducts products(onednn_);
  const at::Tensor output = model.forward(batch.input, Context{step_seed_, step, batch.ids});
  return dtype_ == at::kBFloat16 ? output.to(at::kFloat) : output;
}

std::vector<Shard> Oracle::forward(int64_t step, int64_t k, const std::vector<Batch>& parts, Coupling coupling) {
  std::vector<Shard> result;
  std::vector<at::Tensor> inputs, ids;
  std::vector<int64_t> rows;
  for (size_t r = 0; r < parts.size(); ++r) {
    if (!parts[r].ids.defined()) continue;
    const Batch batch = cast(parts[r]);
    Shard shard{.replica = static_cast<int>(r),
                .micro = k,
                .terms = workload_.loss_terms(batch),
                .gradient = {},
                .used = {},
                .output = {},
                .loss = {}};
    if (coupling != Coupling::batch) shard.output = run(*models_[r], step, batch);
    inputs.push_back(batch.input), ids.push_back(batch.ids), rows.push_back(batch.rows());
    result.push_back(std::move(shard));
  }
  if (coupling != Coupling::batch || result.empty()) return result;
  const auto outputs = run(*models_.front(), step, {at::cat(inputs), {}, at::cat(ids)}).split_with_sizes(rows);
  for (size_t i = 0; i < result.size(); ++i) result[i].output = outputs[i];
  return result;
}

void Oracle::keep_gradient(Shard& shard, Model& model) {
  const auto leaves = trainable(model);
  for (size_t p = 0; p < leaves.size(); ++p) {
    const auto& gradient = leaves[p].second.grad();
    if (gradient.defined()) used_[p] = true;
    shard.used.push_back(gradient.defined());
    shard.gradient.push_back(gradient.defined() ? gradient.clone() : at::zeros_like(leaves[p].second));
  }
}

void Oracle::backward(std::span<Shard> shards, const std::vector<at::Tensor>& targets, Coupling coupling) {
  if (coupling == Coupling::loss) {
    std::vector<at::Tensor> outputs;
    for (const auto& shard : shards) outputs.push_back(shard.output);
    for (const auto& model : models_) model->zero_grad();
    const at::Tensor loss = workload_.loss(at::cat(outputs), at::cat(targets));
    loss.backward();
    for (auto& shard : shards) shard.loss = loss;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    Shard& shard = shards[i];
    Model& model = *models_[coupling == Coupling::batch ? 0 : static_cast<size_t>(shard.replica)];
    if (coupling != Coupling::loss) {
      model.zero_grad();
      shard.loss = workload_.loss(shard.output, targets[i]);
      shard.loss.backward({}, /*retain_graph=*/coupling == Coupling::batch);
    }
    keep_gradient(shard, model);
  }
  for (auto& shard : shards) shard.output = shard.output.detach(), shard.loss = shard.loss.detach();
}

std::vector<Shard> Oracle::shards(int64_t step, const std::vector<std::vector<Batch>>& micro, Coupling coupling,
                                  const std::vector<NamedTensors>& parameters,
                                  const std::vector<NamedTensors>& buffers) {
  for (size_t r = 0; r < models_.size(); ++r) {
    load(*models_[r], parameters.size() == 1 ? parameters.front() : parameters[r], buffers[r]);
    models_[r]->train();
  }
  used_.assign(names_.size(), false);
  std::vector<Shard> result;
  for (size_t k = 0; k < micro.size(); ++k) {
    std::vector<at::Tensor> targets;
    for (const auto& part : micro[k])
      if (part.ids.defined()) targets.push_back(cast(part).target);
    auto parts = forward(step, static_cast<int64_t>(k), micro[k], coupling);
    if (!parts.empty()) backward(parts, targets, coupling);
    for (auto& part : parts) result.push_back(std::move(part));
  }
  return result;
}

NamedTensors Oracle::buffers(int replica) const {
  NamedTensors result;
  for (const auto& item : models_[static_cast<size_t>(replica)]->named_buffers())
    result.emplace_back(item.key(), item.value().clone());
  return result;
}

at::Tensor Oracle::evaluate(const Batch& batch, const NamedTensors& parameters, const NamedTensors& buffers) {
  const at::NoGradGuard no_grad;
  Model& model = *models_.front();
  load(model, parameters, buffers);
  model.eval();
  return run(model, 0, cast(batch));
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
