// Measures the overhead of the harness by timing the same training as a case of dpbench and as a hand-written loop. The
// loop is timed twice: with plain LibTorch functions, and with dpbench's own autograd nodes and backward pass. The
// difference between the two loops shows the gain of dpbench's functions.
#include <chrono>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/micro/case_steps.h"
#include "strategies/api/backward.h"
#include "workloads/layers/dropout.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"
#include "workloads/layers/trained_norm.h"

namespace dpbench::micro {
namespace {

using Clock = std::chrono::steady_clock;
struct Functions {
  at::Tensor (*linear)(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);
  at::Tensor (*cross_entropy)(const at::Tensor& logits, const at::Tensor& labels);
  at::Tensor (*batch_norm)(const at::Tensor& input, const at::Tensor& bias, const RunningStatistics& running,
                           double epsilon);
  at::Tensor (*dropout)(const at::Tensor& input, const Context& context);
  void (*backward)(const at::Tensor& loss);
};

constexpr double dropout_rate = 0.5;

at::Tensor own_dropout(const at::Tensor& input, const Context& context) {
  static const Dropout layer(dropout_rate, /*layer=*/0);
  return layer.forward(input, context);
}

constexpr Functions own_functions{linear, cross_entropy, trained_norm, own_dropout, backward};
constexpr Functions torch_functions{
    [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return at::linear(x, w, b); },
    [](const at::Tensor& x, const at::Tensor& labels) { return at::cross_entropy_loss(x, labels); },
    [](const at::Tensor& x, const at::Tensor& bias, const RunningStatistics& running, double epsilon) {
      return at::batch_norm(x, {}, bias, running.mean, running.var, /*training=*/true, running.momentum, epsilon,
                            /*cudnn_enabled=*/true);
    },
    [](const at::Tensor& x, const Context&) { return at::dropout(x, dropout_rate, /*train=*/true); },
    [](const at::Tensor& loss) { loss.backward(); }};

// The parameters and buffers of a model, each in the order in which the model registers them.
struct ModelTensors {
  std::vector<at::Tensor> parameters, buffers;
};

at::Tensor linear_loss(const Functions& of, const ModelTensors& model, int64_t /*step*/, const Batch& batch) {
  const auto& p = model.parameters;
  return at::mse_loss(of.linear(batch.input, p[0], p[1]), batch.target);
}

at::Tensor mlp_loss(const Functions& of, const ModelTensors& model, int64_t /*step*/, const Batch& batch) {
  const auto& p = model.parameters;
  const auto hidden = of.linear(batch.input.flatten(1), p[0], p[1]).relu_();
  return of.cross_entropy(of.linear(hidden, p[2], p[3]), batch.target);
}

at::Tensor normed(const Functions& of, const at::Tensor& x, const at::Tensor& bias, const ModelTensors& model,
                  size_t layer) {
  const auto &mean = model.buffers[2 * layer], &var = model.buffers[2 * layer + 1];
  return of.batch_norm(x, bias, {mean, var, /*momentum=*/0.01}, /*epsilon=*/1e-3).relu_();
}

at::Tensor convnet_loss(const Functions& of, const ModelTensors& model, int64_t step, const Batch& batch) {
  const auto& p = model.parameters;
  auto x = normed(of, at::conv2d(batch.input * (1.0 / 255), p[0], {}, /*stride=*/1, /*padding=*/1), p[1], model, 0);
  x = normed(of, at::conv2d(x, p[2], {}, /*stride=*/2), p[3], model, 1);
  x = normed(of, at::conv2d(x, p[4], p[5], /*stride=*/2, /*padding=*/2), p[6], model, 2);
  x = of.dropout(of.linear(x.mean({2, 3}), p[7], p[8]).relu_(), {.seed = 1, .step = step, .ids = batch.ids});
  return of.cross_entropy(of.linear(x, p[9], p[10]), batch.target);
}

using Loss = at::Tensor (*)(const Functions& of, const ModelTensors& model, int64_t step, const Batch& batch);

// A training loop as a user would write it for one model and one optimizer.
class ByHand {
 public:
  ByHand(const Workload& workload, Loss loss, const Functions& functions, StepSource& source)
      : loss_(loss), functions_(functions), source_(source), spec_(workload.optimizer()) {
    const auto model = workload.model(1);
    tensors_ = {model->parameters(), model->buffers()};
    if (spec_.kind == OptimizerSpec::Kind::sgd) return;
    for (const at::Tensor& parameter : tensors_.parameters) {
      momenta_.push_back(at::zeros_like(parameter));
      variances_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}, at::kFloat));
    }
  }

  int64_t block(int64_t steps) {
    const auto begin = Clock::now();
    for (int64_t i = 0; i < steps; ++i) {
      for (at::Tensor& parameter : tensors_.parameters) parameter.mutable_grad().reset();
      functions_.backward(loss_(functions_, tensors_, step_, source_.at(step_).front()));
      ++step_;
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : tensors_.parameters) gradients.push_back(parameter.grad());
      update(gradients);
    }
    return std::chrono::nanoseconds(Clock::now() - begin).count();
  }

 private:
  void update(const std::vector<at::Tensor>& gradients) {
    const at::NoGradGuard no_grad;
    if (spec_.kind == OptimizerSpec::Kind::sgd)
      return at::_fused_sgd_(tensors_.parameters, gradients, {}, 0, 0, spec_.learning_rate, 0, false, false, false);
    at::_foreach_add_(steps_, 1);
    at::_fused_adam_(tensors_.parameters, gradients, momenta_, variances_, {}, steps_, spec_.learning_rate, spec_.beta1,
                     spec_.beta2, 0, spec_.epsilon, false, false);
  }

  Loss loss_;
  const Functions& functions_;
  StepSource& source_;
  OptimizerSpec spec_;
  ModelTensors tensors_;
  std::vector<at::Tensor> momenta_, variances_, steps_;  // optimizer state of Adam; empty for SGD
  int64_t step_ = 0;
};

void run_by_hand(benchmark::State& state, const CaseSpec& spec, Loss loss, int64_t steps) {
  // The variants with and without phase timing share one CaseSteps, and thus one model, because the address of the
  // parameters in memory affects the time of a step.
  CaseSteps harness(spec);
  ByHand with_torch_functions(harness.workload(), loss, torch_functions, harness.source()),
      by_hand(harness.workload(), loss, own_functions, harness.source());
  alternate(state,
            {{"torchs", [&] { return with_torch_functions.block(steps); }},
             {"by_hand", [&] { return by_hand.block(steps); }},
             {"case", [&] { return harness.block(steps); }},
             {"phases", [&] { return harness.block(steps, /*phases=*/true); }}},
            steps);
}

}  // namespace

void add_by_hand(const Team& team) {
  const struct {
    const char* workload;
    Loss loss;
    int64_t batch, steps, blocks;
  } kinds[] = {{"random-linear", linear_loss, 30, 200, 201},
               {"mnist-mlp", mlp_loss, 64, 20, 201},
               {"convnet", convnet_loss, 64, 2, 31}};
  for (const auto& kind : kinds)
    add_steps(team, std::string("step_by_hand/") + kind.workload, kind.blocks, [kind](benchmark::State& state) {
      run_by_hand(state, cpu_case(kind.workload, kind.batch), kind.loss, kind.steps);
    });
}

}  // namespace dpbench::micro
