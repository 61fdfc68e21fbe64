#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <tuple>
#include <vector>

#include "harness/conform/scenario/make_workload.h"
#include "strategies/api/backward.h"
#include "strategies/api/named_tensors.h"
#include "tests/support/contains.h"
#include "workloads/api/workload.h"
#include "workloads/base/runtime.h"
#include "workloads/layers/autocast.h"

namespace dpbench {
namespace {

struct Setting {
  std::string workload, model;
  at::ScalarType dtype = at::kFloat;
  Runtime runtime = Runtime::torch;
};

std::unique_ptr<Workload> made(const Setting& setting) {
  return workload_registry().at(setting.workload).make({.model = setting.model});
}

// The output, gradients and buffers after a step.
struct After {
  at::Tensor output;
  NamedTensors gradients, buffers;
};

After one_step(const Setting& setting, int64_t recompute) {
  const auto workload = made(setting);
  const auto model = workload->model(1);
  model->recompute(recompute);
  const at::ScalarType stored = setting.dtype == at::kDouble ? at::kDouble : at::kFloat;
  model->to(stored);
  const Batch batch = workload->batch(at::arange(3));
  const at::Tensor input = batch.input.is_floating_point() ? batch.input.to(stored) : batch.input;
  After after;
  {
    const Autocast autocast(setting.dtype == at::kBFloat16, at::kCPU);
    after.output = model->forward(input, {.seed = 5, .step = 2, .ids = batch.ids}).to(stored);
  }
  backward(workload->loss(after.output, batch.target));
  for (const auto& item : model->named_parameters()) after.gradients.emplace_back(item.key(), item.value().grad());
  for (const auto& item : model->named_buffers()) after.buffers.emplace_back(item.key(), item.value());
  return after;
}

void expect_same_bits(const NamedTensors& one, const NamedTensors& other) {
  ASSERT_EQ(one.size(), other.size());
  auto right = other.begin();
  for (const auto& [name, tensor] : one) {
    EXPECT_TRUE(tensor.equal(right->second)) << name;
    ++right;
  }
}

class Recompute : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override { set_runtime(GetParam().runtime); }
  void TearDown() override { set_runtime(Runtime::fast); }
};

TEST_P(Recompute, OfActivationsGivesTheSameOutputGradientsAndBuffersAsKeepingThem) {
  const After kept = one_step(GetParam(), 0);
  for (const int64_t blocks : {1, 2, 3}) {
    SCOPED_TRACE(blocks);
    const After again = one_step(GetParam(), blocks);
    EXPECT_TRUE(again.output.equal(kept.output));
    expect_same_bits(again.gradients, kept.gradients);
    expect_same_bits(again.buffers, kept.buffers);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Recompute,
                         testing::Values(Setting{"gpt", "tiny"}, Setting{"gpt", "tiny", at::kDouble},
                                         Setting{"gpt", "tiny", at::kBFloat16},
                                         Setting{"gpt", "tiny", at::kFloat, Runtime::fast},
                                         Setting{"gpt", "tiny-llama"}, Setting{"gpt", "tiny-llama", at::kBFloat16},
                                         Setting{"gpt", "tiny-experts"}, Setting{"gpt-exact", ""},
                                         Setting{"gpt-exact-llama", ""}, Setting{"gpt-exact-experts", ""},
                                         Setting{"convnet", ""}, Setting{"convnet", "", at::kBFloat16},
                                         Setting{"convnet", "", at::kFloat, Runtime::fast}, Setting{"mnist-mlp", ""}));

TEST(Recompute, ThePredictedTokenIsNeverTheBalanceLossOfExperts) {
  const WorkloadInfo& info = workload_registry().at("gpt");
  const auto plain = make_workload(info, {.model = "tiny-experts"});
  const auto again = make_workload(info, {.model = "tiny-experts", .recompute = 1});
  at::Tensor output = at::zeros({1, 2, 258});
  output.select(2, 257).fill_(2);  // output 257 is the balance loss of the experts, not a class
  output.select(2, 40).fill_(1);
  EXPECT_TRUE(plain->predicted(output).eq(40).all().item<bool>());
  EXPECT_TRUE(again->predicted(output).eq(40).all().item<bool>());
}

// Counts the bytes that are allocated and not yet freed.
class CountedAllocator : public c10::Allocator {
 public:
  CountedAllocator() { c10::SetCPUAllocator(this, /*priority=*/200); }
  ~CountedAllocator() override { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), /*priority=*/200); }
  c10::DataPtr allocate(size_t bytes) override {
    live() += static_cast<int64_t>(bytes);
    auto* block = new char[bytes + header];
    *reinterpret_cast<size_t*>(block) = bytes;
    return {block + header, block, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  static int64_t& live() {
    static int64_t bytes = 0;
    return bytes;
  }

 private:
  static constexpr size_t header = 64;
  static void release(void* block) {
    live() -= static_cast<int64_t>(*static_cast<size_t*>(block));
    delete[] static_cast<char*>(block);
  }
};

// Returns the bytes that a forward pass of a model with this many layers keeps for the backward pass.
int64_t kept_bytes(int64_t layers, int64_t recompute) {
  const auto workload = made({"gpt", "small,layers=" + std::to_string(layers)});
  const auto model = workload->model(1);
  model->recompute(recompute);
  const Batch batch = workload->batch(at::arange(2));
  const int64_t before = CountedAllocator::live();
  const at::Tensor output = model->forward(batch.input, {.seed = 5, .step = 2, .ids = batch.ids});
  return CountedAllocator::live() - before;
}

TEST(RecomputeMemory, RecomputedLayersKeepOneInputPerGroupOfLayers) {
  const CountedAllocator counted;
  constexpr int64_t input = 2 * 128 * 128 * 4;  // bytes of a layer's input: samples x tokens x hidden features x 4
  EXPECT_EQ(kept_bytes(5, 1) - kept_bytes(4, 1), input);
  EXPECT_EQ(kept_bytes(6, 2) - kept_bytes(4, 2), input);
  EXPECT_GT(kept_bytes(5, 0) - kept_bytes(4, 0), 10 * input);
}

TEST(RecomputeMemory, AForwardPassWithoutGradientsBuildsNoAutogradGraph) {
  const at::NoGradGuard no_grad;
  const auto workload = made({"gpt", "tiny"});
  const auto model = workload->model(1);
  model->recompute(1);
  const Batch batch = workload->batch(at::arange(2));
  EXPECT_FALSE(model->forward(batch.input, {.ids = batch.ids}).requires_grad());
}

TEST(Recompute, ASecondDerivativeIsRefused) {
  set_runtime(Runtime::torch);  // dpbench's own layers already refuse a second derivative, so the test uses torch's
  const auto workload = made({"gpt", "tiny"});
  const auto model = workload->model(1);
  model->recompute(1);
  const Batch batch = workload->batch(at::arange(2));
  const at::Tensor loss = workload->loss(model->forward(batch.input, {.ids = batch.ids}), batch.target);
  try {
    torch::autograd::grad({loss}, {model->parameters()[0]}, {}, /*retain_graph=*/true, /*create_graph=*/true);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_TRUE(mentions_in_order(error.what(), {"recompute", "second derivative"}));
  }
  set_runtime(Runtime::fast);
}

}  // namespace
}  // namespace dpbench
