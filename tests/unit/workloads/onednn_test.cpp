// Products by oneDNN: where they are taken, that they are the products asked for, and that nothing else changes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>

#include "strategies/api/strategy.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/onednn.h"

namespace dpbench {
namespace {

std::atomic<int> onednn_calls{0};

// Those made while it lives.
class Calls {
 public:
  Calls()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
              onednn_calls += std::string_view(function.name()) == "mkldnn::_linear_pointwise";
              return nullptr;
            }))) {
    onednn_calls = 0;
  }
  ~Calls() { at::removeCallback(handle_); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  int made() const { return onednn_calls; }

 private:
  at::CallbackHandle handle_;
};

struct LinearPass {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

LinearPass linear_pass(int64_t rows, at::ScalarType type, bool onednn) {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  const auto some = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator).to(type).requires_grad_(); };
  const at::Tensor x = some({rows, 300}), weight = some({90, 300}), bias = some({90}),
                   slope = some({rows, 90}).detach();
  const OneDnnProducts products(onednn);
  const at::Tensor output = linear(x, weight, bias);
  output.backward(slope);
  return {output.detach(), x.grad(), weight.grad(), bias.grad()};
}

bool all_equal(const LinearPass& a, const LinearPass& b) {
  return at::equal(a.output, b.output) && at::equal(a.input_gradient, b.input_gradient) &&
         at::equal(a.weight_gradient, b.weight_gradient) && at::equal(a.bias_gradient, b.bias_gradient);
}

double distance(const at::Tensor& a, const at::Tensor& exact) {
  return ((a.to(at::kDouble) - exact).abs().max() / exact.abs().max()).item<double>();
}

TEST(OneDnn, GivesTheProductsOfALargeLayer) {
  at::set_num_threads(1);
  const LinearPass exact = linear_pass(64, at::kDouble, false), blas = linear_pass(64, at::kFloat, false);
  const Calls calls;
  const LinearPass found = linear_pass(64, at::kFloat, true);
  EXPECT_EQ(calls.made(), 3);
  EXPECT_TRUE(all_equal(found, linear_pass(64, at::kFloat, true)));
  for (const auto one :
       {&LinearPass::output, &LinearPass::input_gradient, &LinearPass::weight_gradient, &LinearPass::bias_gradient}) {
    EXPECT_LT(distance(found.*one, exact.*one), 1e-6);
    EXPECT_EQ((found.*one).strides(), (blas.*one).strides());
  }
}

TEST(OneDnn, LeavesSmallProductsAndDoublesToBlas) {
  const Calls calls;
  EXPECT_TRUE(all_equal(linear_pass(8, at::kFloat, true), linear_pass(8, at::kFloat, false)));
  EXPECT_TRUE(all_equal(linear_pass(64, at::kDouble, true), linear_pass(64, at::kDouble, false)));
  EXPECT_EQ(calls.made(), 0);
}

TEST(OneDnn, IsTakenByTheForwardPassForBoth) {
  for (const bool forward_on : {true, false}) {
    const at::Tensor x = at::randn({64, 300}), weight = at::randn({90, 300}).requires_grad_(),
                     bias = at::zeros({90}).requires_grad_();
    const Calls calls;
    std::optional<OneDnnProducts> products(std::in_place, forward_on);
    const at::Tensor output = linear(x, weight, bias);
    products.emplace(!forward_on);
    output.sum().backward();
    EXPECT_EQ(calls.made(), forward_on ? 2 : 0);  // the output, the weight's gradient
  }
}

std::unique_ptr<Strategy> made(const std::string& name, const std::string& onednn, at::Device device = at::kCPU) {
  const StrategyInfo& info = strategy_registry().at(name);
  static const auto workload = workload_registry().at("mnist-mlp").make({});
  return info.make({.workload = *workload,
                    .devices = {device, device},
                    .group = {},
                    .params = Params(info.params, {{"onednn", onednn}}, name),
                    .clip_norm = {}});
}

at::Tensor output_after(Strategy& strategy) {
  static const auto workload = workload_registry().at("mnist-mlp").make({});
  const at::Tensor ids = at::arange(128);
  workload->prepare(ids);
  const std::vector<Batch> micro{workload->batch(ids)};
  Phases phases;
  StepResult result;
  for (int64_t step = 0; step < 3; ++step) result = strategy.step(step, micro, phases);
  return result.output.clone();
}

TEST(OneDnn, IsAParameterThatDoesNotChangeTheMeaning) {
  at::set_num_threads(1);
  for (const char* name : {"cpu", "dp"}) {
    const at::Tensor off = output_after(*made(name, "off"));
    const Calls calls;
    const at::Tensor on = output_after(*made(name, "on"));
    EXPECT_GE(calls.made(), 1 + 3 * 2) << name;  // a first one shows that it can be had
    EXPECT_TRUE(at::allclose(off, on, 1e-3, 1e-4)) << name;
  }
}

}  // namespace
}  // namespace dpbench
