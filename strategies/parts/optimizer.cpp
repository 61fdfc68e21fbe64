#include "strategies/parts/optimizer.h"

#include <algorithm>
#include <unordered_map>

#include <ATen/ATen.h>

#include "strategies/parts/shares.h"

namespace dpbench {

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

namespace {

// Returns the gradient with its parameter's memory layout, copied if necessary: fused kernels ignore strides. A
// backward pass gives a gradient the right layout, but other code may assign one with another.
at::Tensor with_layout_of(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (!gradient.defined() || gradient.layout() != at::kStrided || same_layout(parameter, gradient)) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace

struct Optimizer::Lists {
  std::vector<at::Tensor> parameters, gradients, momenta, variances, steps;
};

Optimizer::Optimizer(const OptimizerSpec& spec, std::vector<Parameter> parameters)
    : spec_(spec), parameters_(std::move(parameters)) {
  // The parameters are sorted by dtype, so that one fused kernel call takes all parameters of a dtype.
  std::stable_sort(parameters_.begin(), parameters_.end(), [](const Parameter& a, const Parameter& b) {
    return a.tensor.scalar_type() < b.tensor.scalar_type();
  });
  if (spec_.kind == OptimizerSpec::Kind::adam)
    for (const auto& [name, tensor] : parameters_)
      slots_.push_back({at::zeros_like(tensor), at::zeros_like(tensor),
                        at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(tensor.device()))});
  // Each parameter serves as a placeholder for its gradient, which step() sets later.
  all_lists_ = grouped([](const at::Tensor& parameter) { return parameter; });
}

Optimizer::~Optimizer() = default;

std::vector<Optimizer::Lists> Optimizer::grouped(const GradientOf& gradient_of) {
  std::vector<Lists> groups;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    const at::Tensor gradient = gradient_of(parameter);
    if (!gradient.defined()) continue;
    if (groups.empty() || groups.back().parameters.back().scalar_type() != parameter.scalar_type())
      groups.emplace_back();
    Lists& lists = groups.back();
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(with_layout_of(parameter, gradient));
    if (slots_.empty()) continue;
    lists.momenta.push_back(slots_[i].momentum);
    lists.variances.push_back(slots_[i].variance);
    lists.steps.push_back(slots_[i].step);
  }
  return groups;
}

void Optimizer::step() { step_in_shares(1, {}); }

void Optimizer::step_in_shares(int parts, const RunParallel& run_parallel) {
  const at::NoGradGuard no_grad;
  // The cached argument lists are valid unless a gradient is missing, because only the gradients change between steps.
  const bool all = take_gradients();
  if (all && parts > 1 && can_be_split()) {
    for (Lists& lists : all_lists_)
      if (!lists.steps.empty()) at::_foreach_add_(lists.steps, 1);
    run_parallel([&](int part) { step_share(part, parts); });
  } else if (all) {
    step(all_lists_);
  }
  release_gradients();
  if (!all) step_available();
}

void Optimizer::release_gradients() {
  for (Lists& lists : all_lists_)
    // Frees gradients, so that the next backward pass can reuse their memory.
    for (at::Tensor& gradient : lists.gradients) gradient.reset();
}

bool Optimizer::can_be_split() const {
  constexpr int64_t worth_it = 1 << 14;  // with fewer elements than this, waking the threads costs more than it saves
  int64_t total = 0;
  for (const Lists& lists : all_lists_)
    for (size_t i = 0; i < lists.parameters.size(); ++i) {
      const at::Tensor& parameter = lists.parameters[i];
      // float16 and bfloat16 are not split: the add kernel's own parallel split is not vector-aligned there, so the
      // bits would differ.
      if (!parameter.is_cpu() || at::isReducedFloatingType(parameter.scalar_type()) ||
          !parameter.is_non_overlapping_and_dense() || lists.gradients[i].layout() != at::kStrided)
        return false;
      total += parameter.numel();
    }
  return total >= worth_it;
}

void Optimizer::step_share(int part, int parts) {
  const at::NoGradGuard no_grad;
  for (const Lists& lists : all_lists_) {
    std::vector<int64_t> sizes;
    for (const at::Tensor& parameter : lists.parameters) sizes.push_back(parameter.numel());
    Lists share;
    for_each_in_share(sizes, part, parts, [&](size_t i, int64_t from, int64_t to) {
      share.parameters.push_back(range_of(lists.parameters[i], from, to));
      share.gradients.push_back(range_of(lists.gradients[i], from, to));
      if (lists.steps.empty()) return;
      share.momenta.push_back(range_of(lists.momenta[i], from, to));
      share.variances.push_back(range_of(lists.variances[i], from, to));
      share.steps.push_back(lists.steps[i]);
    });
    if (!share.parameters.empty()) update(share);
  }
}

bool Optimizer::take_gradients() {
  for (Lists& lists : all_lists_)
    for (size_t i = 0; i < lists.parameters.size(); ++i) {
      lists.gradients[i] = with_layout_of(lists.parameters[i], lists.parameters[i].grad());
      if (!lists.gradients[i].defined()) return false;
    }
  return true;
}

void Optimizer::step_available() {
  auto groups = grouped([](const at::Tensor& parameter) { return parameter.grad(); });
  step(groups);
}

void Optimizer::step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
  std::unordered_map<const void*, at::Tensor> given;
  for (size_t i = 0; i < parameters.size(); ++i) given.emplace(parameters[i].unsafeGetTensorImpl(), gradients[i]);
  auto groups = grouped([&](const at::Tensor& parameter) {
    const auto found = given.find(parameter.unsafeGetTensorImpl());
    return found == given.end() ? at::Tensor() : found->second;
  });
  step(groups);
}

void Optimizer::step(std::vector<Lists>& groups) {
  const at::NoGradGuard no_grad;
  for (Lists& lists : groups) {
    if (!lists.steps.empty()) at::_foreach_add_(lists.steps, 1);
    update(lists);
  }
}

void Optimizer::update(Lists& lists) const { spec_.kind == OptimizerSpec::Kind::sgd ? sgd(lists) : adam(lists); }

// Steps by SGD. 16-bit tensors on the CPU avoid torch's fused kernel: in torch 2.11 it updates only the elements at a
// tensor's end that fill no vector.
void Optimizer::sgd(Lists& lists) const {
  if (lists.parameters[0].is_cpu() && at::isReducedFloatingType(lists.parameters[0].scalar_type()))
    return at::_foreach_add_(lists.parameters, lists.gradients, -spec_.learning_rate);
  at::_fused_sgd_(lists.parameters, lists.gradients, {}, /*weight_decay=*/0, /*momentum=*/0, spec_.learning_rate,
                  /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
}

void Optimizer::adam(Lists& lists) const {
  at::_fused_adam_(lists.parameters, lists.gradients, lists.momenta, lists.variances, {}, lists.steps,
                   spec_.learning_rate, spec_.beta1, spec_.beta2, /*weight_decay=*/0, spec_.epsilon, /*amsgrad=*/false,
                   /*maximize=*/false);
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  for (size_t i = 0; i < slots_.size(); ++i) {
    state.emplace_back(parameters_[i].name + ".momentum", slots_[i].momentum);
    state.emplace_back(parameters_[i].name + ".variance", slots_[i].variance);
    state.emplace_back(parameters_[i].name + ".step", slots_[i].step);
  }
  return state;
}

void clip_gradients(const std::vector<Parameter>& parameters, double limit) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients, norms;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.grad().defined()) continue;
    gradients.push_back(tensor.grad());
    norms.push_back(at::linalg_vector_norm(tensor.grad()).to(at::kDouble));
  }
  if (gradients.empty()) return;
  const at::Tensor total = at::linalg_vector_norm(at::stack(norms));
  const at::Tensor factor = (limit / (total + 1e-6)).clamp_max(1.0);
  for (at::Tensor& gradient : gradients) gradient.mul_(factor.to(gradient.scalar_type()));
}

}  // namespace dpbench
