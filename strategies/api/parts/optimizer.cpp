#include "strategies/api/parts/optimizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/parts/shares.h"
#include "workloads/base/error.h"

namespace dpbench {

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

namespace {

// Returns the gradient with its parameter's memory layout, copied if necessary: fused kernels ignore strides. A
// backward pass gives a gradient its parameter's layout, but other code may assign a gradient with a different layout.
at::Tensor with_layout_of(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (!gradient.defined() || gradient.layout() != at::kStrided || same_layout(parameter, gradient)) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

}  // namespace

struct Optimizer::Lists {
  double decay = 0;
  std::vector<at::Tensor> parameters = {}, gradients = {}, momenta = {}, variances = {}, steps = {};
};

Optimizer::Optimizer(const OptimizerSpec& spec, const std::vector<Parameter>& parameters,
                     const std::vector<int64_t>& dimensions)
    : spec_(spec) {
  if (spec_.own)
    throw UsageError(
        "the workload brings its own optimizer, which strategies in C++ cannot step. Use one in Python, such "
        "as py-ddp or py-fsdp2, and --no-baseline");
  if (spec_.kind == OptimizerSpec::Kind::sgd && spec_.weight_decay != 0)
    throw UsageError("the workload's optimizer is SGD, which has no weight decay here. Use Adam, or weight_decay = 0.");
  if (spec_.kind == OptimizerSpec::Kind::adam && spec_.momentum != 0)
    throw UsageError("the workload's optimizer is Adam, whose momentum is beta1. Use SGD, or momentum = 0.");
  for (size_t i = 0; i < parameters.size(); ++i)
    entries_.push_back(entry_of(parameters[i], dimensions.empty() ? parameters[i].tensor.dim() : dimensions.at(i)));
  // Sorts the parameters by dtype and weight decay, so that one fused kernel call takes all parameters with the same
  // two values.
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.parameter.tensor.scalar_type(), a.decay) < std::pair(b.parameter.tensor.scalar_type(), b.decay);
  });
  // In the kernels' argument lists, each parameter stands in for its own gradient until step() puts the gradient there.
  all_lists_ = grouped([](const at::Tensor& parameter) { return parameter; });
}

Optimizer::~Optimizer() = default;

// Our momentum buffers of SGD start as zeros; torch's start as the first gradient. The results have the same bits,
// because zero times the momentum plus the gradient is the gradient.
Optimizer::Entry Optimizer::entry_of(const Parameter& parameter, int64_t dimensions) const {
  Entry entry{parameter, weight_decay(spec_, dimensions), {}, {}, {}};
  const bool adam = spec_.kind == OptimizerSpec::Kind::adam;
  if (adam || spec_.momentum != 0) entry.momentum = at::zeros_like(parameter.tensor);
  if (!adam) return entry;
  entry.variance = at::zeros_like(parameter.tensor);
  entry.step = at::zeros({}, at::TensorOptions().dtype(at::kFloat).device(parameter.tensor.device()));
  return entry;
}

std::vector<Optimizer::Lists> Optimizer::grouped(const GradientOf& gradient_of) const {
  std::vector<Lists> groups;
  for (const Entry& entry : entries_) {
    const at::Tensor& parameter = entry.parameter.tensor;
    const at::Tensor gradient = gradient_of(parameter);
    if (!gradient.defined()) continue;
    if (groups.empty() || groups.back().parameters.back().scalar_type() != parameter.scalar_type() ||
        groups.back().decay != entry.decay)
      groups.push_back({.decay = entry.decay});
    Lists& lists = groups.back();
    lists.parameters.push_back(parameter);
    lists.gradients.push_back(with_layout_of(parameter, gradient));
    if (entry.momentum.defined()) lists.momenta.push_back(entry.momentum);
    if (entry.variance.defined()) lists.variances.push_back(entry.variance);
    if (entry.step.defined()) lists.steps.push_back(entry.step);
  }
  return groups;
}

void Optimizer::step(int64_t number) { step_in_shares(number, 1, {}); }

void Optimizer::step_in_shares(int64_t number, int parts, const RunParallel& run_parallel) {
  const at::NoGradGuard no_grad;
  const double rate = learning_rate(spec_, number);
  // The argument lists of the fused kernels are built once: between steps only the gradients change. They cannot be
  // used if a gradient is missing.
  const bool all = take_gradients();
  if (all && parts > 1 && can_be_split()) {
    for (const Lists& lists : all_lists_)
      if (!lists.steps.empty()) at::_foreach_add_(lists.steps, 1);
    run_parallel([&](int part) { step_share(rate, part, parts); });
  } else if (all) {
    step(all_lists_, rate);
  }
  release_gradients();
  if (!all) step(grouped([](const at::Tensor& parameter) { return parameter.grad(); }), rate);
}

void Optimizer::release_gradients() {
  for (Lists& lists : all_lists_)
    // Drops the references to gradients from the kernels' argument lists, so that the next backward pass can reuse the
    // gradients' memory.
    for (at::Tensor& gradient : lists.gradients) gradient.reset();
}

bool Optimizer::can_be_split() const {
  // Tensors with fewer elements in total are stepped on one thread, because waking the other threads would cost more.
  constexpr int64_t worth_it = 1 << 14;
  int64_t total = 0;
  for (const Lists& lists : all_lists_)
    for (size_t i = 0; i < lists.parameters.size(); ++i) {
      const at::Tensor& parameter = lists.parameters[i];
      // float16 and bfloat16 tensors are not split among our threads. The add kernel of torch splits them itself, at
      // places that are not aligned to its vectors, so our split would give other bits.
      if (!parameter.is_cpu() || at::isReducedFloatingType(parameter.scalar_type()) ||
          !parameter.is_non_overlapping_and_dense() || lists.gradients[i].layout() != at::kStrided)
        return false;
      total += parameter.numel();
    }
  return total >= worth_it;
}

void Optimizer::step_share(double rate, int part, int parts) const {
  const at::NoGradGuard no_grad;
  for (const Lists& lists : all_lists_) {
    std::vector<int64_t> sizes;
    for (const at::Tensor& parameter : lists.parameters) sizes.push_back(parameter.numel());
    Lists share{.decay = lists.decay};
    for_each_in_share(sizes, part, parts, [&](size_t i, int64_t from, int64_t to) {
      share.parameters.push_back(range_of(lists.parameters[i], from, to));
      share.gradients.push_back(range_of(lists.gradients[i], from, to));
      if (!lists.momenta.empty()) share.momenta.push_back(range_of(lists.momenta[i], from, to));
      if (!lists.variances.empty()) share.variances.push_back(range_of(lists.variances[i], from, to));
      if (!lists.steps.empty()) share.steps.push_back(lists.steps[i]);
    });
    if (!share.parameters.empty()) update(share, rate);
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

void Optimizer::step(int64_t number, const std::vector<at::Tensor>& parameters,
                     const std::vector<at::Tensor>& gradients) {
  std::unordered_map<const void*, at::Tensor> given;
  for (size_t i = 0; i < parameters.size(); ++i) given.emplace(parameters[i].unsafeGetTensorImpl(), gradients[i]);
  const auto gradient_of = [&](const at::Tensor& parameter) {
    const auto found = given.find(parameter.unsafeGetTensorImpl());
    return found == given.end() ? at::Tensor() : found->second;
  };
  step(grouped(gradient_of), learning_rate(spec_, number));
}

void Optimizer::step(const std::vector<Lists>& groups, double rate) const {
  const at::NoGradGuard no_grad;
  for (const Lists& lists : groups) {
    if (!lists.steps.empty()) at::_foreach_add_(lists.steps, 1);
    update(lists, rate);
  }
}

// Adam without weight decay uses AdamW's fused kernel too, which then gives the same bits as Adam's.
void Optimizer::update(const Lists& lists, double rate) const {
  if (spec_.kind == OptimizerSpec::Kind::sgd) return sgd(lists, rate);
  at::_fused_adamw_(lists.parameters, lists.gradients, lists.momenta, lists.variances, {}, lists.steps, rate,
                    spec_.beta1, spec_.beta2, lists.decay, spec_.epsilon, /*amsgrad=*/false, /*maximize=*/false);
}

// Steps by SGD. 16-bit tensors on the CPU avoid torch's fused kernel, which has a bug in torch 2.11: it updates only
// the last elements of a tensor, those that do not fill a SIMD vector.
void Optimizer::sgd(const Lists& lists, double rate) const {
  if (!lists.parameters[0].is_cpu() || !at::isReducedFloatingType(lists.parameters[0].scalar_type()))
    return at::_fused_sgd_(lists.parameters, lists.gradients, lists.momenta, /*weight_decay=*/0, spec_.momentum, rate,
                           /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
  if (lists.momenta.empty()) return at::_foreach_add_(lists.parameters, lists.gradients, -rate);
  at::_foreach_mul_(lists.momenta, spec_.momentum);
  at::_foreach_add_(lists.momenta, lists.gradients);
  at::_foreach_add_(lists.parameters, lists.momenta, -rate);
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  const auto slots = state_slots(spec_);
  for (const Entry& entry : entries_) {
    const at::Tensor* const tensors[] = {&entry.momentum, &entry.variance, &entry.step};
    for (size_t i = 0; i < slots.size(); ++i)
      state.emplace_back(state_name(entry.parameter.name, slots[i]), *tensors[i]);
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
