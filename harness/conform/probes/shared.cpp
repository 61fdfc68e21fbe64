// Probes (small test models) with unusual parameters: shared, used several times, recomputed, unused, used by some
// samples only, frozen, or without effect on the loss in some or all steps.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "harness/conform/probes/probe.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench::probes {
namespace {

// A model with one tensor under two names. A faulty strategy that iterates over names reduces and updates the tensor
// twice.
class Tied : public Model {
 public:
  explicit Tied(uint64_t seed) {
    Seeded random(seed);
    table_ = register_parameter("encoder", random({5, 5}));
    register_parameter("decoder", table_);
    bias_ = register_parameter("bias", random({5}));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    return at::tanh(at::linear(input, table_) + bias_).matmul(table_);
  }

 private:
  at::Tensor table_, bias_;
};

// A layer with activation checkpointing: it saves only its input and recomputes the rest in the backward pass.
struct Recomputed : torch::autograd::Function<Recomputed> {
  using Layer = at::Tensor (*)(const at::Tensor& input, const at::Tensor& weight);

  static at::Tensor forward(torch::autograd::AutogradContext* context, Layer layer, const at::Tensor& input,
                            const at::Tensor& weight) {
    context->save_for_backward({input, weight});
    context->saved_data["layer"] = reinterpret_cast<int64_t>(layer);
    return layer(input, weight);
  }

  // Recomputes the layer in the weight's dtype even under autocast. Returns gradients in the dtypes of the saved
  // tensors.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto layer = reinterpret_cast<Layer>(context->saved_data["layer"].toInt());
    const auto saved = context->get_saved_variables();
    const at::AutoGradMode with_gradients(true);
    const at::Tensor weight = saved[1].detach().requires_grad_();
    const at::Tensor input = saved[0].detach().to(weight.scalar_type()).requires_grad_();
    const at::Tensor output = layer(input, weight);
    const auto own = torch::autograd::grad({output}, {input, weight}, {gradients[0].to(output.scalar_type())});
    return {at::Tensor(), own[0].to(saved[0].scalar_type()), own[1]};
  }
};

// A model that calls one checkpointed layer three times.
class Reused : public Model {
 public:
  explicit Reused(uint64_t seed) {
    Seeded random(seed);
    layer_ = register_parameter("layer", random({4, 4}));
    out_ = register_parameter("out", random({2, 4}));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    at::Tensor x = input;
    for (int i = 0; i < 3; ++i)
      x = Recomputed::apply([](const at::Tensor& in, const at::Tensor& w) { return at::tanh(at::linear(in, w)); }, x,
                            layer_);
    return at::linear(x, out_);
  }

 private:
  at::Tensor layer_, out_;
};

// A model with an unused parameter that has two names: DDP must mark it as ready exactly once.
class Unused : public Model {
 public:
  explicit Unused(uint64_t seed) {
    Seeded random(seed);
    first_ = register_parameter("first", random({4, 4}));
    register_parameter("idle_again", register_parameter("idle", random({3})));
    out_ = register_parameter("out", random({2, 4}));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    return at::linear(at::tanh(at::linear(input, first_)), out_);
  }

 private:
  at::Tensor first_, out_;
};

// A model with a branch that depends on the samples: in most steps some ranks take it and others do not.
class Branch : public Model {
 public:
  explicit Branch(uint64_t seed) {
    Seeded random(seed);
    first_ = register_parameter("first", random({4, 4}));
    extra_ = register_parameter("extra", random({4, 4}));
    register_parameter("extra_again", extra_);
    out_ = register_parameter("out", random({2, 4}));
  }
  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    at::Tensor x = at::tanh(at::linear(input, first_));
    if (context.ids[0].item<int64_t>() % 2 == 0) x = at::tanh(at::linear(x, extra_)).matmul(extra_);
    return at::linear(x, out_);
  }

 private:
  at::Tensor first_, extra_, out_;
};

// Returns 1 in even steps and 0 in odd ones. If the step is replayed as a CUDA graph, its number is read from device
// memory, because the graph would repeat a constant.
at::Tensor in_even_steps(const Context& context, const at::TensorOptions& options) {
  const at::Tensor& recorded = RecordedStep::number();
  const at::Tensor number = recorded.defined() ? recorded : at::scalar_tensor(context.step, at::kLong);
  return number.remainder(2).eq(0).to(options);
}

// A model with a frozen parameter, and two parameters with gradients that are exactly zero: `aside` in every step,
// because it does not affect the loss, and `extra` in odd steps. Momentum and weight decay still change these two.
class Frozen : public Model {
 public:
  explicit Frozen(uint64_t seed) {
    Seeded random(seed);
    first_ = register_parameter("first", random({4, 4}));
    still_ = register_parameter("still", random({4, 4}), /*requires_grad=*/false);
    extra_ = register_parameter("extra", random({4, 4}));
    out_ = register_parameter("out", random({2, 4}));
    aside_ = register_parameter("aside", random({1, 4}));
  }
  at::Tensor forward(const at::Tensor& input, const Context& context) override {
    at::Tensor x = at::tanh(at::linear(at::tanh(at::linear(input, first_)), still_));
    x = x + at::tanh(at::linear(x, extra_)) * in_even_steps(context, x.options());
    return at::cat({at::linear(x, out_), at::linear(x, aside_)}, 1);
  }

 private:
  at::Tensor first_, still_, extra_, out_, aside_;
};

const RegisterWorkload tied{probe<Tied>("probe-tied", "one tensor under two names", {5}, 5, probe_adam())};
const RegisterWorkload reused{probe<Reused>(
    "probe-reused", "one layer called three times, recomputed in the backward pass", {4}, 2, probe_sgd())};
const RegisterWorkload unused{probe<Unused>("probe-unused", "a parameter that no sample uses", {4}, 2, probe_adam())};
const RegisterWorkload branch{probe<Branch>(
    "probe-branch", "a branch that only some ranks use, with its weight used twice", {4}, 2, probe_adam())};
const RegisterWorkload frozen{
    probe<Frozen>("probe-frozen", "a frozen parameter, and two with gradients of zero", {4}, 2, probe_adamw())};

}  // namespace
}  // namespace dpbench::probes
