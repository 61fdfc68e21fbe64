// torch's fused kernels, as Optimizer calls them, against the same formulas by single tensor operations.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <ATen/ATen.h>

#include "strategies/optimizer.h"

namespace dpbench {
namespace {

constexpr int steps = 20;

at::Tensor drawn(at::IntArrayRef sizes, at::ScalarType type, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(type));
}

// Such as fill whole vectors of a CPU, and such as do not.
std::vector<Parameter> some_parameters(at::ScalarType type) {
  return {{"long", drawn({1003}, type, 1)}, {"even", drawn({32, 64}, type, 2)}, {"short", drawn({7}, type, 3)}};
}

void give_gradients(const std::vector<Parameter>& parameters, int step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i].tensor;
    parameter.mutable_grad() = drawn(parameter.sizes(), parameter.scalar_type(), 100 + 10 * static_cast<uint64_t>(step) + i);
  }
}

OptimizerSpec spec_of(const std::string& workload) { return workload_registry().at(workload).make({})->optimizer(); }

class Fused : public testing::TestWithParam<at::ScalarType> {
 protected:
  // The largest difference, in units of the last place of the number itself and of what is added to it in a step.
  double apart(const at::Tensor& found, const at::Tensor& expected, double added) const {
    const double unit = GetParam() == at::kFloat ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    return ((found - expected).abs() / (expected.abs() + added)).max().item<double>() / unit;
  }
};

// The sum rounds once where the CPU has a fused multiply-add, as the fused kernel does: a product of its own would round twice.
TEST_P(Fused, SgdHasTheBitsOfAScaledSum) {
  for (const char* workload : {"random-linear", "mnist-mlp"}) {
    const OptimizerSpec spec = spec_of(workload);
    ASSERT_EQ(spec.kind, OptimizerSpec::Kind::sgd);
    const auto parameters = some_parameters(GetParam());
    std::vector<at::Tensor> plain;
    for (const Parameter& parameter : parameters) plain.push_back(parameter.tensor.clone());
    Optimizer optimizer(spec, parameters);
    for (int step = 0; step < steps; ++step) {
      give_gradients(parameters, step);
      optimizer.step();
      for (size_t i = 0; i < plain.size(); ++i) {
        plain[i].add_(parameters[i].tensor.grad(), -spec.learning_rate);
        ASSERT_TRUE(at::equal(parameters[i].tensor, plain[i])) << workload << ", " << parameters[i].name << ", step " << step;
      }
    }
  }
}

// Which products it rounds by themselves is the kernel's own affair: an ulp a step, no more.
TEST_P(Fused, AdamIsNoFurtherFromItsFormulaThanAnUlpAStep) {
  const OptimizerSpec spec = spec_of("convnet");
  ASSERT_EQ(spec.kind, OptimizerSpec::Kind::adam);
  const auto parameters = some_parameters(GetParam());
  std::vector<at::Tensor> plain, momenta, variances;
  for (const Parameter& parameter : parameters) {
    plain.push_back(parameter.tensor.clone());
    momenta.push_back(at::zeros_like(parameter.tensor));
    variances.push_back(at::zeros_like(parameter.tensor));
  }
  Optimizer optimizer(spec, parameters);
  for (int step = 1; step <= steps; ++step) {
    give_gradients(parameters, step);
    optimizer.step();
    const double first = 1 - std::pow(spec.beta1, step), second = 1 - std::pow(spec.beta2, step);  // what zeros at the start lack
    for (size_t i = 0; i < plain.size(); ++i) {
      const at::Tensor gradient = parameters[i].tensor.grad();
      momenta[i] = momenta[i] * spec.beta1 + gradient * (1 - spec.beta1);
      variances[i] = variances[i] * spec.beta2 + gradient * gradient * (1 - spec.beta2);
      plain[i] = plain[i] - momenta[i] * (spec.learning_rate / first) / (variances[i].sqrt() / std::sqrt(second) + spec.epsilon);
    }
  }
  const NamedTensors state = optimizer.state();
  ASSERT_EQ(state.size(), 3 * plain.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string& name = parameters[i].name;
    EXPECT_LE(apart(parameters[i].tensor, plain[i], spec.learning_rate), steps) << name;
    EXPECT_LE(apart(state[3 * i].second, momenta[i], /*added=*/1), steps) << state[3 * i].first << ": gradients are around 1";
    EXPECT_LE(apart(state[3 * i + 1].second, variances[i], /*added=*/0), steps) << state[3 * i + 1].first << ": nothing cancels";
    EXPECT_EQ(state[3 * i + 2].second.item<double>(), steps) << state[3 * i + 2].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Fused, testing::Values(at::kFloat, at::kDouble));

}  // namespace
}  // namespace dpbench
