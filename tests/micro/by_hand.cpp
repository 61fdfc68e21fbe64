// What the harness costs: the same training once as a case of dpbench and once as a loop written by hand; and what the workloads' own
// autograd nodes save: that loop with LibTorch's functions alone.
#include <ATen/ATen.h>

#include "tests/micro/case_steps.h"
#include "workloads/layers/linear.h"
#include "workloads/loss.h"

namespace dpbench::micro {
namespace {

using HandClock = std::chrono::steady_clock;
struct Functions {
  at::Tensor (*linear)(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias);
  at::Tensor (*cross_entropy)(const at::Tensor& logits, const at::Tensor& labels);
};
constexpr Functions ours{linear, cross_entropy};
constexpr Functions torchs{[](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return at::linear(x, w, b); },
                           [](const at::Tensor& x, const at::Tensor& labels) { return at::cross_entropy_loss(x, labels); }};

at::Tensor linear_loss(const Functions& of, const std::vector<at::Tensor>& p, const Batch& batch) {
  return at::mse_loss(of.linear(batch.input, p[0], p[1]), batch.target);
}

at::Tensor mlp_loss(const Functions& of, const std::vector<at::Tensor>& p, const Batch& batch) {
  const auto hidden = of.linear(batch.input.flatten(1), p[0], p[1]).relu_();
  return of.cross_entropy(of.linear(hidden, p[2], p[3]), batch.target);
}

using Loss = at::Tensor (*)(const Functions& of, const std::vector<at::Tensor>& parameters, const Batch& batch);

// The loop that somebody would write for one model and one optimizer.
class ByHand {
 public:
  ByHand(const Workload& workload, Loss loss, const Functions& functions, StepSource& source)
      : loss_(loss), functions_(functions), source_(source), rate_(workload.optimizer().learning_rate) {
    for (const at::Tensor& tensor : workload.model(1)->parameters()) parameters_.push_back(tensor);
  }

  int64_t block(int64_t steps) {
    const auto begin = HandClock::now();
    for (int64_t i = 0; i < steps; ++i) {
      for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
      loss_(functions_, parameters_, source_.at(step_++).front()).backward();
      std::vector<at::Tensor> gradients;
      for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
      const at::NoGradGuard no_grad;
      at::_fused_sgd_(parameters_, gradients, {}, 0, 0, rate_, 0, false, false, false);
    }
    return std::chrono::nanoseconds(HandClock::now() - begin).count();
  }

 private:
  Loss loss_;
  const Functions& functions_;
  StepSource& source_;
  double rate_;
  std::vector<at::Tensor> parameters_;
  int64_t step_ = 0;
};

void run_by_hand(benchmark::State& state, const CaseSpec& spec, Loss loss, int64_t steps) {
  CaseSteps harness(spec);  // with and without phases the same parameters: where they lie in memory makes a difference of its own
  ByHand with_torchs(harness.workload(), loss, torchs, harness.source()), by_hand(harness.workload(), loss, ours, harness.source());
  alternate(state, {{"torchs", [&] { return with_torchs.block(steps); }},
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
    int64_t batch, steps;
  } kinds[] = {{"random-linear", linear_loss, 30, 200}, {"mnist-mlp", mlp_loss, 64, 20}};
  for (const auto& kind : kinds)
    add_steps(team, std::string("step_by_hand/") + kind.workload, 201, [kind](benchmark::State& state) {
      run_by_hand(state, cpu_case(kind.workload, kind.batch), kind.loss, kind.steps);
    });
}

}  // namespace dpbench::micro
