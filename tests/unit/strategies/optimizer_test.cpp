// The optimizer steps, which use torch's fused kernels, compared with the same formulas as single tensor operations.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strategies/parts/optimizer.h"
#include "strategies/parts/replica_threads.h"
#include "strategies/parts/shares.h"

namespace dpbench {
namespace {

constexpr int steps = 20;

at::Tensor random_tensor(at::IntArrayRef sizes, at::ScalarType type, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions().dtype(type));
}

// Returns parameters of several sizes. Only the size of "even" is a multiple of the CPU's vector registers.
std::vector<Parameter> some_parameters(at::ScalarType type) {
  return {{"long", random_tensor({1003}, type, 1)},
          {"even", random_tensor({32, 64}, type, 2)},
          {"short", random_tensor({7}, type, 3)}};
}

void give_gradients(const std::vector<Parameter>& parameters, int step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i].tensor;
    parameter.mutable_grad() =
        random_tensor(parameter.sizes(), parameter.scalar_type(), 100 + 10 * static_cast<uint64_t>(step) + i);
  }
}

OptimizerSpec spec_of(const std::string& workload) { return workload_registry().at(workload).make({})->optimizer(); }

class Fused : public testing::TestWithParam<at::ScalarType> {
 protected:
  // Returns the largest difference between `found` and `expected`, in ulps (units in the last place) of |expected| +
  // `added`, where `added` is the size of the term that a step adds.
  double difference_in_ulps(const at::Tensor& found, const at::Tensor& expected, double added) const {
    const double unit =
        GetParam() == at::kFloat ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    return ((found - expected).abs() / (expected.abs() + added)).max().item<double>() / unit;
  }
};

// The reference uses a fused multiply-add if the CPU has it, like the fused kernel. Multiplying and adding separately
// would round twice.
TEST_P(Fused, SgdStepGivesTheBitsOfSubtractingTheScaledGradient) {
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
        ASSERT_TRUE(at::equal(parameters[i].tensor, plain[i]))
            << workload << ", " << parameters[i].name << ", step " << step;
      }
    }
  }
}

// The fused kernel may round products separately, which costs at most one ulp (unit in the last place) per step.
TEST_P(Fused, AdamDiffersFromItsFormulaByAtMostOneUlpPerStep) {
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
    // Divisors of Adam's bias correction.
    const double first = 1 - std::pow(spec.beta1, step), second = 1 - std::pow(spec.beta2, step);
    for (size_t i = 0; i < plain.size(); ++i) {
      const at::Tensor gradient = parameters[i].tensor.grad();
      momenta[i] = momenta[i] * spec.beta1 + gradient * (1 - spec.beta1);
      variances[i] = variances[i] * spec.beta2 + gradient * gradient * (1 - spec.beta2);
      plain[i] = plain[i] -
                 momenta[i] * (spec.learning_rate / first) / (variances[i].sqrt() / std::sqrt(second) + spec.epsilon);
    }
  }
  const NamedTensors state = optimizer.state();
  ASSERT_EQ(state.size(), 3 * plain.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string& name = parameters[i].name;
    EXPECT_LE(difference_in_ulps(parameters[i].tensor, plain[i], spec.learning_rate), steps) << name;
    EXPECT_LE(difference_in_ulps(state[3 * i].second, momenta[i], /*added=*/1), steps)
        << state[3 * i].first << ": gradients are around 1";
    EXPECT_LE(difference_in_ulps(state[3 * i + 1].second, variances[i], /*added=*/0), steps)
        << state[3 * i + 1].first << ": nothing cancels";
    EXPECT_EQ(state[3 * i + 2].second.item<double>(), steps) << state[3 * i + 2].first;
  }
}

// --- optimizer step split into shares, one per thread

std::vector<Parameter> large_parameters(at::ScalarType type) {
  return {{"weight", random_tensor({128, 301}, type, 1)},
          {"bias", random_tensor({128}, type, 2)},
          {"tail", random_tensor({7}, type, 3)},
          {"transposed", random_tensor({40, 300}, type, 4).t()},
          {"double", random_tensor({501}, at::kDouble, 5)}};
}

// Gives the gradient of the transposed parameter the memory layout that a backward pass produces.
void match_layout(const at::Tensor& transposed) { transposed.mutable_grad() = transposed.grad().t().contiguous().t(); }

// Runs the shares (parts of an optimizer step) one after the other in reverse order, because no share may depend on an
// earlier one.
Optimizer::RunParallel reverse_order(int parts, int* calls) {
  return [=](const std::function<void(int)>& share) {
    ++*calls;
    for (int part = parts - 1; part >= 0; --part) share(part);
  };
}

TEST(StepInShares, GivesTheBitsOfAWholeStep) {
  for (const char* workload : {"mnist-mlp", "convnet"})
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const int parts : {1, 2, 3, 5}) {
        const auto whole = large_parameters(type), shared = large_parameters(type);
        Optimizer whole_step(spec_of(workload), whole), in_shares(spec_of(workload), shared);
        int calls = 0;
        for (int step = 0; step < steps; ++step) {
          for (const auto& parameters : {whole, shared}) {
            give_gradients(parameters, step);
            match_layout(parameters[3].tensor);
          }
          whole_step.step();
          in_shares.step_in_shares(parts, reverse_order(parts, &calls));
        }
        const std::string what = std::string(workload) + ' ' + at::toString(type) + ", parts: " + std::to_string(parts);
        EXPECT_EQ(calls, parts > 1 && type != at::kBFloat16 ? steps : 0) << what;
        for (size_t i = 0; i < whole.size(); ++i)
          EXPECT_TRUE(at::equal(whole[i].tensor, shared[i].tensor)) << what << ' ' << whole[i].name;
        const auto a = whole_step.state(), b = in_shares.state();
        for (size_t i = 0; i < a.size(); ++i)
          EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << what << ' ' << a[i].first;
      }
}

TEST(StepInShares, GivesTheBitsOfAWholeStepWithConcurrentThreads) {
  for (const char* workload : {"mnist-mlp", "convnet"}) {
    const auto whole = large_parameters(at::kFloat), shared = large_parameters(at::kFloat);
    Optimizer whole_step(spec_of(workload), whole), in_shares(spec_of(workload), shared);
    ReplicaThreads threads(3);
    for (int step = 0; step < steps; ++step) {
      for (const auto& parameters : {whole, shared}) {
        give_gradients(parameters, step);
        match_layout(parameters[3].tensor);
      }
      whole_step.step();
      in_shares.step_in_shares(3, [&](const auto& share) { threads.run(3, share); });
    }
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_TRUE(at::equal(whole[i].tensor, shared[i].tensor)) << workload << ' ' << whole[i].name;
  }
}

TEST(StepInShares, FallsBackToAWholeStepForSmallModelsOrMissingGradients) {
  const auto stepped = [](const std::vector<Parameter>& parameters) {
    std::vector<at::Tensor> before;
    for (const auto& [name, tensor] : parameters) before.push_back(tensor.clone());
    Optimizer optimizer(spec_of("mnist-mlp"), parameters);
    int calls = 0;
    optimizer.step_in_shares(2, reverse_order(2, &calls));
    EXPECT_EQ(calls, 0);
    for (size_t i = 0; i < parameters.size(); ++i)
      EXPECT_EQ(at::equal(before[i], parameters[i].tensor), !parameters[i].tensor.grad().defined())
          << parameters[i].name;
  };
  const auto small = some_parameters(at::kFloat), large = large_parameters(at::kFloat);
  give_gradients(small, 0);
  stepped(small);
  give_gradients(large, 0);
  large[1].tensor.mutable_grad().reset();
  stepped(large);
}

// Each element is updated with its own gradient even if parameter and gradient differ in memory layout.
TEST(Optimizer, UpdatesEachElementWithItsOwnGradientForEveryLayout) {
  for (const char* workload : {"mnist-mlp", "convnet"})
    for (const int parts : {0, 2}) {
      const auto plain = large_parameters(at::kFloat), transposed = large_parameters(at::kFloat);
      Optimizer one(spec_of(workload), plain), other(spec_of(workload), transposed);
      for (int step = 0; step < 3; ++step) {
        give_gradients(plain, step);
        give_gradients(transposed, step);
        match_layout(plain[3].tensor);
        match_layout(transposed[0].tensor);  // the gradient has another memory layout than its parameter
        one.step();
        int calls = 0;
        parts > 0 ? other.step_in_shares(parts, reverse_order(parts, &calls)) : other.step();
      }
      for (size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(at::equal(plain[i].tensor, transposed[i].tensor)) << workload << ' ' << plain[i].name;
    }
}

TEST(StepInShares, KeepsNoReferenceToGradients) {
  const auto parameters = large_parameters(at::kFloat);
  Optimizer optimizer(spec_of("mnist-mlp"), parameters);
  give_gradients(parameters, 0);
  match_layout(parameters[3].tensor);
  int calls = 0;
  optimizer.step_in_shares(2, reverse_order(2, &calls));
  EXPECT_EQ(calls, 1);
  for (const auto& [name, tensor] : parameters) EXPECT_EQ(tensor.grad().use_count(), 1u) << name;
}

TEST(Shares, CoverEveryElementOnceAndStartAtMultiplesOf64) {
  const std::vector<std::vector<int64_t>> lists{
      {1}, {63, 1, 64}, {100'352, 128, 1280, 10}, {0, 5, 0}, {200, 200, 200, 200, 200}, {}};
  for (const auto& sizes : lists)
    for (const int parts : {1, 2, 3, 8, 50}) {
      std::vector<std::vector<int>> seen;
      for (const int64_t size : sizes) seen.emplace_back(static_cast<size_t>(size));
      int64_t total = 0, most = 0;
      for (const int64_t size : sizes) total += size;
      for (int part = 0; part < parts; ++part) {
        int64_t mine = 0;
        for_each_in_share(sizes, part, parts, [&](size_t i, int64_t from, int64_t to) {
          EXPECT_TRUE(from % 64 == 0 && (to % 64 == 0 || to == sizes[i])) << from << ' ' << to;
          for (int64_t k = from; k < to; ++k) ++seen[i][static_cast<size_t>(k)];
          mine += to - from;
        });
        most = std::max(most, mine);
      }
      for (const auto& of_tensor : seen)
        for (const int times : of_tensor) ASSERT_EQ(times, 1);
      EXPECT_LE(most, total / parts + 64 * static_cast<int64_t>(sizes.size() + 1));
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Fused, testing::Values(at::kFloat, at::kDouble));

}  // namespace
}  // namespace dpbench
