// Compares dpbench's optimizer steps, which use torch's fused kernels, with the same formulas as single tensor
// operations.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "harness/conform/evidence/tensor_difference.h"
#include "strategies/api/parts/optimizer.h"
#include "strategies/parts/replica_threads.h"
#include "strategies/parts/shares.h"
#include "workloads/base/error.h"

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

const OptimizerSpec momentum_spec{.learning_rate = 0.1, .momentum = 0.9};
const OptimizerSpec adamw_spec{.kind = OptimizerSpec::Kind::adam,
                               .learning_rate = 0.1,
                               .weight_decay = 0.3,
                               .warmup_steps = 4,
                               .decay_steps = 10,
                               .final_fraction = 0.1};

class Fused : public testing::TestWithParam<at::ScalarType> {
 protected:
  // Returns the largest difference between elements of `found` and `expected`, in ulps (units in the last place) of
  // |expected| + `added`, where `added` is the size of the term that a step adds.
  double difference_in_ulps(const at::Tensor& found, const at::Tensor& expected, double added) const {
    const double unit =
        GetParam() == at::kFloat ? std::numeric_limits<float>::epsilon() : std::numeric_limits<double>::epsilon();
    return ((found - expected).abs() / (expected.abs() + added)).max().item<double>() / unit;
  }
};

// The plain computation uses a fused multiply-add if the CPU has it, like the fused kernel. Multiplying and adding
// separately would round twice.
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
      optimizer.step(step);
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
    optimizer.step(step);
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

std::vector<Parameter> large_parameters(at::ScalarType type) {
  return {{"weight", random_tensor({128, 301}, type, 1)},
          {"bias", random_tensor({128}, type, 2)},
          {"tail", random_tensor({7}, type, 3)},
          {"transposed", random_tensor({40, 300}, type, 4).t()},
          {"double", random_tensor({501}, at::kDouble, 5)}};
}

// Gives the gradient of the transposed parameter the memory layout that a backward pass produces.
void match_layout(const at::Tensor& transposed) { transposed.mutable_grad() = transposed.grad().t().contiguous().t(); }

TEST_P(Fused, AdamHasTheBitsOfTorchsFusedAdamWithoutWeightDecay) {
  const OptimizerSpec spec = spec_of("convnet");
  const auto mine = some_parameters(GetParam()), theirs = some_parameters(GetParam());
  std::vector<at::Tensor> parameters = tensors_of(theirs), momenta, variances, counts;
  for (const at::Tensor& parameter : parameters) {
    momenta.push_back(at::zeros_like(parameter));
    variances.push_back(at::zeros_like(parameter));
    counts.push_back(at::zeros({}));
  }
  Optimizer optimizer(spec, mine);
  for (int step = 0; step < steps; ++step) {
    give_gradients(mine, step);
    std::vector<at::Tensor> gradients;
    for (const Parameter& parameter : mine) gradients.push_back(parameter.tensor.grad());
    optimizer.step(step);
    at::_foreach_add_(counts, 1);
    at::_fused_adam_(parameters, gradients, momenta, variances, {}, counts, spec.learning_rate, spec.beta1, spec.beta2,
                     /*weight_decay=*/0, spec.epsilon, /*amsgrad=*/false, /*maximize=*/false);
  }
  for (size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(at::equal(mine[i].tensor, parameters[i])) << mine[i].name;
}

// Compares with torch's optimizer with two groups of parameters: one with weight decay, one without. torch computes
// each operation separately, so results may differ by an ulp (unit in the last place) per step and rounding.
template <class Torch, class Options>
void expect_steps_of_torch(const OptimizerSpec& spec, Options options, double ulps) {
  const auto mine = some_parameters(at::kDouble), theirs = some_parameters(at::kDouble);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const Parameter& parameter : theirs) {
    if constexpr (requires { options.betas(); })
      options.weight_decay(parameter.tensor.dim() < 2 ? 0 : spec.weight_decay);
    groups.emplace_back(std::vector<at::Tensor>{parameter.tensor}, std::make_unique<Options>(options));
  }
  Torch torchs(groups, options);
  Optimizer optimizer(spec, mine);
  for (int step = 0; step < steps; ++step) {
    give_gradients(mine, step);
    give_gradients(theirs, step);
    for (auto& group : torchs.param_groups()) static_cast<Options&>(group.options()).lr(learning_rate(spec, step));
    optimizer.step(step);
    torchs.step();
  }
  for (size_t i = 0; i < mine.size(); ++i)
    EXPECT_LE(largest_element(mine[i].tensor - theirs[i].tensor), ulps * 0x1p-52 * steps) << mine[i].name;
}

TEST(Optimizer, StepsLikeTorchsAdamWWithScheduleAndDecayOfMatricesOnly) {
  expect_steps_of_torch<torch::optim::AdamW>(adamw_spec, torch::optim::AdamWOptions(), 4);
}

TEST(Optimizer, StepsLikeTorchsSgdWithMomentum) {
  expect_steps_of_torch<torch::optim::SGD>(momentum_spec, torch::optim::SGDOptions(0.1).momentum(0.9), 16);
}

TEST(Optimizer, MomentumStepInBfloat16EqualsTheSameUpdateInSeparateTensorOperations) {
  const auto parameters = large_parameters(at::kBFloat16);
  std::vector<at::Tensor> plain, buffers;
  for (const Parameter& parameter : parameters) {
    plain.push_back(parameter.tensor.clone());
    buffers.push_back(at::zeros_like(parameter.tensor));
  }
  Optimizer optimizer(momentum_spec, parameters);
  for (int step = 0; step < 3; ++step) {
    give_gradients(parameters, step);
    optimizer.step(step);
    for (size_t i = 0; i < plain.size(); ++i) {
      buffers[i].mul_(momentum_spec.momentum).add_(parameters[i].tensor.grad());
      plain[i].add_(buffers[i], -momentum_spec.learning_rate);
    }
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(parameters[i].tensor, plain[i])) << parameters[i].name;
}

TEST(Optimizer, DecaysFlattenedParametersByTheirOriginalNumberOfDimensions) {
  const auto whole = large_parameters(at::kFloat), flat = large_parameters(at::kFloat);
  std::vector<Parameter> pieces;
  std::vector<int64_t> dimensions;
  for (const auto& [name, tensor] : flat) {
    pieces.push_back({name, range_of(tensor, 0, tensor.numel())});
    dimensions.push_back(tensor.dim());
  }
  Optimizer one(adamw_spec, whole), other(adamw_spec, pieces, dimensions);
  for (int step = 0; step < 3; ++step) {
    give_gradients(whole, step);
    match_layout(whole[3].tensor);
    for (size_t i = 0; i < pieces.size(); ++i)
      pieces[i].tensor.mutable_grad() = range_of(whole[i].tensor.grad(), 0, whole[i].tensor.numel());
    one.step(step);
    other.step(step);
  }
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(at::equal(whole[i].tensor, flat[i].tensor)) << whole[i].name;
}

TEST(Optimizer, RefusesMomentumForAdamAndWeightDecayForSgd) {
  OptimizerSpec decayed_sgd{.weight_decay = 0.1}, adam{.kind = OptimizerSpec::Kind::adam, .momentum = 0.9};
  EXPECT_THROW(Optimizer(decayed_sgd, some_parameters(at::kFloat)), UsageError);
  EXPECT_THROW(Optimizer(adam, some_parameters(at::kFloat)), UsageError);
}

TEST(LearningRate, RisesLinearlyThenFallsAsACosineAndStays) {
  const OptimizerSpec spec{.learning_rate = 8, .warmup_steps = 4, .decay_steps = 4, .final_fraction = 0.25};
  const std::vector<double> expected = {2, 4, 6, 8, 8, 2 + 3 * (1 + std::sqrt(0.5)), 5, 2 + 3 * (1 - std::sqrt(0.5)),
                                        2, 2};
  for (size_t step = 0; step < expected.size(); ++step)
    EXPECT_DOUBLE_EQ(learning_rate(spec, static_cast<int64_t>(step)), expected[step]) << step;
  EXPECT_EQ(learning_rate(spec, 1'000'000'000), 2);
}

TEST(LearningRate, IsConstantByDefaultAndAfterAWarmUpWithoutDecay) {
  for (const int64_t step : {0, 1, 1000}) EXPECT_EQ(learning_rate({.learning_rate = 0.3}, step), 0.3);
  const OptimizerSpec spec{.learning_rate = 0.3, .warmup_steps = 3};
  for (const int64_t step : {2, 3, 1000}) EXPECT_EQ(learning_rate(spec, step), 0.3);
}

// Runs the shares (parts of an optimizer step) one after the other in reverse order, because no share may depend on an
// earlier one.
Optimizer::RunParallel reverse_order(int parts, int* calls) {
  return [=](const std::function<void(int)>& share) {
    ++*calls;
    for (int part = parts - 1; part >= 0; --part) share(part);
  };
}

TEST(OptimizerStepSharedAmongThreads, GivesTheBitsOfAStepOfOneThread) {
  const std::pair<const char*, OptimizerSpec> specs[] = {
      {"sgd", spec_of("mnist-mlp")}, {"momentum", momentum_spec}, {"adam", spec_of("convnet")}, {"adamw", adamw_spec}};
  for (const auto& [kind, spec] : specs)
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
      for (const int parts : {1, 2, 3, 5}) {
        const auto whole = large_parameters(type), shared = large_parameters(type);
        Optimizer whole_step(spec, whole), in_shares(spec, shared);
        int calls = 0;
        for (int step = 0; step < steps; ++step) {
          for (const auto& parameters : {whole, shared}) {
            give_gradients(parameters, step);
            match_layout(parameters[3].tensor);
          }
          whole_step.step(step);
          in_shares.step_in_shares(step, parts, reverse_order(parts, &calls));
        }
        const std::string what = std::string(kind) + ' ' + at::toString(type) + ", parts: " + std::to_string(parts);
        EXPECT_EQ(calls, parts > 1 && type != at::kBFloat16 ? steps : 0) << what;
        for (size_t i = 0; i < whole.size(); ++i)
          EXPECT_TRUE(at::equal(whole[i].tensor, shared[i].tensor)) << what << ' ' << whole[i].name;
        const auto a = whole_step.state(), b = in_shares.state();
        for (size_t i = 0; i < a.size(); ++i)
          EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << what << ' ' << a[i].first;
      }
}

TEST(OptimizerStepSharedAmongThreads, GivesTheBitsOfAStepOfOneThreadAlsoIfThreadsRunConcurrently) {
  for (const char* workload : {"mnist-mlp", "convnet"}) {
    const auto whole = large_parameters(at::kFloat), shared = large_parameters(at::kFloat);
    Optimizer whole_step(spec_of(workload), whole), in_shares(spec_of(workload), shared);
    ReplicaThreads threads(3);
    for (int step = 0; step < steps; ++step) {
      for (const auto& parameters : {whole, shared}) {
        give_gradients(parameters, step);
        match_layout(parameters[3].tensor);
      }
      whole_step.step(step);
      in_shares.step_in_shares(step, 3, [&](const auto& share) { threads.run(3, share); });
    }
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_TRUE(at::equal(whole[i].tensor, shared[i].tensor)) << workload << ' ' << whole[i].name;
  }
}

TEST(OptimizerStepSharedAmongThreads, IsTakenByOneThreadForSmallModelsOrMissingGradients) {
  const auto stepped = [](const std::vector<Parameter>& parameters) {
    std::vector<at::Tensor> before;
    for (const auto& [name, tensor] : parameters) before.push_back(tensor.clone());
    Optimizer optimizer(spec_of("mnist-mlp"), parameters);
    int calls = 0;
    optimizer.step_in_shares(0, 2, reverse_order(2, &calls));
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
TEST(Optimizer, UpdatesEachElementWithItsOwnGradientIfMemoryLayoutsDiffer) {
  for (const char* workload : {"mnist-mlp", "convnet"})
    for (const int parts : {0, 2}) {
      const auto plain = large_parameters(at::kFloat), transposed = large_parameters(at::kFloat);
      Optimizer one(spec_of(workload), plain), other(spec_of(workload), transposed);
      for (int step = 0; step < 3; ++step) {
        give_gradients(plain, step);
        give_gradients(transposed, step);
        match_layout(plain[3].tensor);
        match_layout(transposed[0].tensor);  // the gradient has another memory layout than its parameter
        one.step(step);
        int calls = 0;
        parts > 0 ? other.step_in_shares(step, parts, reverse_order(parts, &calls)) : other.step(step);
      }
      for (size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(at::equal(plain[i].tensor, transposed[i].tensor)) << workload << ' ' << plain[i].name;
    }
}

TEST(OptimizerStepSharedAmongThreads, KeepsNoReferenceToGradients) {
  const auto parameters = large_parameters(at::kFloat);
  Optimizer optimizer(spec_of("mnist-mlp"), parameters);
  give_gradients(parameters, 0);
  match_layout(parameters[3].tensor);
  int calls = 0;
  optimizer.step_in_shares(0, 2, reverse_order(2, &calls));
  EXPECT_EQ(calls, 1);
  for (const auto& [name, tensor] : parameters) EXPECT_EQ(tensor.grad().use_count(), 1u) << name;
}

TEST(ThreadSharesOfAnOptimizerStep, CoverEveryElementOnceAndStartAtMultiplesOf64) {
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
