// Tests when layers compute matrix products with oneDNN instead of BLAS. Training must give almost the same results
// with both.
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

// Counts the calls of oneDNN's linear kernel as long as the object exists.
class OneDnnCalls {
 public:
  OneDnnCalls()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
              onednn_calls += std::string_view(function.name()) == "mkldnn::_linear_pointwise";
              return nullptr;
            }))) {
    onednn_calls = 0;
  }
  ~OneDnnCalls() { at::removeCallback(handle_); }
  OneDnnCalls(const OneDnnCalls&) = delete;
  OneDnnCalls& operator=(const OneDnnCalls&) = delete;
  int count() const { return onednn_calls; }

 private:
  at::CallbackHandle handle_;
};

struct LinearPass {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

LinearPass linear_pass(int64_t rows, at::ScalarType type, bool onednn) {
  const at::Generator generator = at::detail::createCPUGenerator(7);
  const auto random_tensor = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator).to(type).requires_grad_();
  };
  const at::Tensor x = random_tensor({rows, 300}), weight = random_tensor({90, 300}), bias = random_tensor({90}),
                   slope = random_tensor({rows, 90}).detach();
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

TEST(OneDnn, IsUsedForTheForwardAndBackwardProductsOfALargeLayer) {
  at::set_num_threads(1);
  const LinearPass exact = linear_pass(64, at::kDouble, false), blas = linear_pass(64, at::kFloat, false);
  const OneDnnCalls calls;
  const LinearPass found = linear_pass(64, at::kFloat, true);
  EXPECT_EQ(calls.count(), 3);
  EXPECT_TRUE(all_equal(found, linear_pass(64, at::kFloat, true)));
  for (const auto one :
       {&LinearPass::output, &LinearPass::input_gradient, &LinearPass::weight_gradient, &LinearPass::bias_gradient}) {
    EXPECT_LT(distance(found.*one, exact.*one), 1e-6);
    EXPECT_EQ((found.*one).strides(), (blas.*one).strides());
  }
}

TEST(OneDnn, IsNotUsedForSmallProductsOrFloat64) {
  const OneDnnCalls calls;
  EXPECT_TRUE(all_equal(linear_pass(8, at::kFloat, true), linear_pass(8, at::kFloat, false)));
  EXPECT_TRUE(all_equal(linear_pass(64, at::kDouble, true), linear_pass(64, at::kDouble, false)));
  EXPECT_EQ(calls.count(), 0);
}

TEST(OneDnn, BackwardPassUsesOneDnnExactlyIfTheForwardPassDid) {
  for (const bool forward_on : {true, false}) {
    const at::Tensor x = at::randn({64, 300}), weight = at::randn({90, 300}).requires_grad_(),
                     bias = at::zeros({90}).requires_grad_();
    const OneDnnCalls calls;
    std::optional<OneDnnProducts> products(std::in_place, forward_on);
    const at::Tensor output = linear(x, weight, bias);
    products.emplace(!forward_on);
    output.sum().backward();
    // one matrix product for the output and one for the gradient of the weight
    EXPECT_EQ(calls.count(), forward_on ? 2 : 0);
  }
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const std::string& onednn,
                                        at::Device device = at::kCPU) {
  const StrategyInfo& info = strategy_registry().at(name);
  static const auto workload = workload_registry().at("mnist-mlp").make({});
  return info.make({.workload = *workload,
                    .devices = {device, device},
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

TEST(OneDnn, ModelsTrainedWithAndWithoutOneDnnGiveCloseOutputs) {
  at::set_num_threads(1);
  for (const char* name : {"cpu", "dp"}) {
    const at::Tensor off = output_after(*make_strategy(name, "off"));
    const OneDnnCalls calls;
    const at::Tensor on = output_after(*make_strategy(name, "on"));
    // one call in which dpbench tests oneDNN, and two products in each of three steps
    EXPECT_GE(calls.count(), 1 + 3 * 2) << name;
    EXPECT_TRUE(at::allclose(off, on, 1e-3, 1e-4)) << name;
  }
}

}  // namespace
}  // namespace dpbench
