// Times a training step of the random-linear workload call by call (loss, backward pass, ...): the time from the start
// of the step to the end of each call, and the time of each kernel without autograd.
#include <chrono>
#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "harness/micro/case_steps.h"
#include "strategies/api/backward.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"

namespace dpbench::micro {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t calls_steps = 200;

StepArm repeated(const char* name, const std::function<void()>& call) {
  return {name, [call] {
            const auto begin = Clock::now();
            for (int64_t i = 0; i < calls_steps; ++i) call();
            return static_cast<int64_t>(std::chrono::nanoseconds(Clock::now() - begin).count());
          }};
}

StepArm kernel(const char* name, const std::function<void()>& call) {
  return repeated(name, [call] {
    const at::AutoDispatchBelowADInplaceOrView below;
    call();
  });
}

struct Step {
  at::Tensor weight = at::rand({2, 5}).set_requires_grad(true), bias = at::rand({2}).set_requires_grad(true);
  at::Tensor input = at::rand({30, 5}), target = at::rand({30, 2});

  void clear() {
    weight.mutable_grad().reset();
    bias.mutable_grad().reset();
  }
  at::Tensor output() {
    clear();
    return linear(input, weight, bias);
  }
  at::Tensor loss() { return mean_squared_error(output(), target); }
  void backward() { dpbench::backward(loss()); }
  void whole() {
    backward();
    const at::NoGradGuard no_grad;
    at::_fused_sgd_({weight, bias}, {weight.grad(), bias.grad()}, {}, 0, 0, 1e-3, 0, false, false, false);
  }
};

std::vector<StepArm> calls_of(Step& s) {
  const at::Tensor weight = s.weight.detach().clone(), bias = s.bias.detach().clone(), y = at::rand({30, 2}),
                   one = at::ones({});
  const at::Tensor weight_gradient = at::rand({2, 5}), bias_gradient = at::rand({2});
  return {repeated("1_clear", [&s] { s.clear(); }),
          repeated("2_linear", [&s] { s.output(); }),
          repeated("3_loss", [&s] { s.loss(); }),
          repeated("4_backward", [&s] { s.backward(); }),
          repeated("5_optimizer", [&s] { s.whole(); }),
          kernel("t", [=] { weight.t(); }),
          kernel("addmm", [=, &s] { at::addmm(bias, s.input, weight.t()); }),
          kernel("mse_loss", [=, &s] { at::mse_loss(y, s.target); }),
          kernel("ones_like", [=] { at::ones_like(one); }),
          kernel("mse_loss_backward", [=, &s] { at::mse_loss_backward(one, y, s.target, at::Reduction::Mean); }),
          kernel("mm", [=, &s] { at::mm(y.t(), s.input); }),
          kernel("sum", [=] { y.sum(0); }),
          kernel("fused_sgd", [=] {
            at::_fused_sgd_({weight, bias}, {weight_gradient, bias_gradient}, {}, 0, 0, 1e-3, 0, false, false, false);
          })};
}

}  // namespace

void add_calls(const Team& team) {
  add_steps(team, "step_calls/random-linear", 101, [](benchmark::State& state) {
    Step step;
    alternate(state, calls_of(step), calls_steps);
  });
}

}  // namespace dpbench::micro
