// Measures a lower bound of a training step's time: the time of its matrix products and convolutions without any other
// work. Blocks of these calls alternate with blocks of complete steps.
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/micro/case_steps.h"

namespace dpbench::micro {
namespace {

using Calls = std::vector<std::function<void()>>;

// Appends the matrix products of a fully connected layer to `calls`: the output y = x w', the weight gradient and, if a
// previous layer needs it, the input gradient.
void add_linear(Calls& calls, int64_t rows, int64_t inputs, int64_t outputs, bool input_gradient) {
  const auto x = at::rand({rows, inputs}), w = at::rand({outputs, inputs}), y = at::rand({rows, outputs});
  auto out = at::empty_like(y), dw = at::empty_like(w), dx = at::empty_like(x);
  calls.push_back([=]() mutable { at::mm_out(out, x, w.t()); });
  calls.push_back([=]() mutable { at::mm_out(dw, y.t(), x); });
  if (input_gradient) calls.push_back([=]() mutable { at::mm_out(dx, y, w); });
}

struct Convolution {
  int64_t outputs, kernel, stride, padding;
  bool bias;
};

// Appends the forward and backward pass of a convolution of x to `calls`. Returns the convolution's output, which is
// the next layer's input. The output gradient has the memory layout that LibTorch chose for the output, so that no
// layout conversion is timed.
at::Tensor add_convolution(Calls& calls, const at::Tensor& x, const Convolution& shape, bool input_gradient) {
  const auto w = at::rand({shape.outputs, x.size(1), shape.kernel, shape.kernel});
  const auto b = shape.bias ? at::rand({shape.outputs}) : at::Tensor();
  const auto forward = [=] { return at::conv2d(x, w, b, shape.stride, shape.padding); };
  const auto y = forward(), gradient = at::rand_like(y);
  calls.push_back([=] { benchmark::DoNotOptimize(forward()); });
  calls.push_back([=] {
    const std::array<int64_t, 2> stride{shape.stride, shape.stride}, padding{shape.padding, shape.padding}, one{1, 1},
        none{0, 0};
    benchmark::DoNotOptimize(
        at::convolution_backward(gradient, x, w, at::OptionalIntArrayRef(w.sizes().slice(0, shape.bias ? 1 : 0)),
                                 stride, padding, one, false, none, 1, {input_gradient, true, shape.bias}));
  });
  return y;
}

Calls mlp_products(int64_t rows) {
  Calls calls;
  add_linear(calls, rows, 784, 128, false);
  add_linear(calls, rows, 128, 10, true);
  return calls;
}

Calls convnet_convolutions(int64_t rows) {
  Calls calls;
  auto x = add_convolution(calls, at::rand({rows, 1, 28, 28}), {12, 3, 1, 1, false}, false);
  x = add_convolution(calls, x, {24, 6, 2, 0, false}, true);
  add_convolution(calls, x, {32, 6, 2, 2, true}, true);
  add_linear(calls, rows, 32, 256, true);
  add_linear(calls, rows, 256, 10, true);
  return calls;
}

void run_limit(benchmark::State& state, const CaseSpec& spec, const Calls& calls, int64_t steps) {
  const at::NoGradGuard no_grad;
  CaseSteps training(spec);
  const auto bare = [&] {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < steps; ++i)
      for (const auto& call : calls) call();
    return static_cast<int64_t>(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
  };
  const auto step = [&] {
    const at::AutoGradMode with(true);
    return training.block(steps);
  };
  alternate(state, {{"bare", bare}, {"case", step}}, steps);
}

}  // namespace

void add_limit(const Team& team) {
  constexpr int64_t rows = 64;
  const struct {
    const char* workload;
    Calls (*calls)(int64_t rows);
    int64_t steps, blocks;
  } kinds[] = {{"mnist-mlp", mlp_products, 20, 201}, {"convnet", convnet_convolutions, 2, 41}};
  for (const auto& kind : kinds)
    add_steps(team, std::string("step_limit/") + kind.workload, kind.blocks, [kind](benchmark::State& state) {
      run_limit(state, cpu_case(kind.workload, rows), kind.calls(rows), kind.steps);
    });
}

}  // namespace dpbench::micro
