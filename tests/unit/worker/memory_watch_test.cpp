// The division of a strategy's memory into parts.
#include "harness/worker/measure/memory_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

constexpr int64_t mebibyte = 1 << 20;

at::Tensor of_mebibytes(int64_t count) { return at::empty({count * mebibyte}, at::kByte); }

// Strategy that lists these tensors as kept, and takes no steps.
class Keeping : public Strategy {
 public:
  StepResult step(int64_t, std::span<const Batch>, Phases&) override { return {}; }
  at::Tensor forward(const Batch&) override { return {}; }
  NamedTensors parameters() override { return {{"p", copies ? parameter.clone() : parameter}}; }
  NamedTensors gradients() override { return {{"p", gradient}}; }
  NamedTensors buffers() override { return {}; }
  NamedTensors state() override { return {{"p.moment", moment}}; }

  bool copies = false;
  at::Tensor parameter = of_mebibytes(2), gradient, moment = of_mebibytes(4);
};

// Counts for the rest of the program, as dpbench's worker does.
class MemoryParts : public testing::Test {
 protected:
  static void SetUpTestSuite() { count_tensor_memory(); }

  // Expects these parts of the peak, in MiB. A block may be a page larger than its tensor.
  static void expect(const MemoryWatch& watch, const std::vector<double>& wanted) {
    const auto peak = watch.peak();
    ASSERT_TRUE(peak);
    const std::vector<int64_t> found = {peak->parameters,  peak->gradients, peak->state,
                                        peak->activations, peak->buffers,   peak->temporary};
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(static_cast<double>(found[i]) / mebibyte, wanted[i], 0.03) << "part " << i;
  }
  static void enter(MemoryWatch& watch, Phase phase) { watch.entered(phase, {}); }
};

TEST_F(MemoryParts, OfKeptTensorsAreThoseOfTheStrategysListAndTheRestAreBuffers) {
  const int64_t before = tensor_bytes();
  Keeping strategy;
  strategy.gradient = of_mebibytes(1);
  const at::Tensor other = of_mebibytes(3);
  expect(MemoryWatch(strategy, before), {2, 1, 4, 0, 3, 0});
}

TEST_F(MemoryParts, OfTensorsOfAStepFollowItsPhases) {
  const int64_t before = tensor_bytes();
  Keeping strategy;
  MemoryWatch watch(strategy, before);
  enter(watch, Phase::data);
  const at::Tensor moved = of_mebibytes(1);
  enter(watch, Phase::forward);
  const at::Tensor activation = of_mebibytes(5);
  enter(watch, Phase::communication);
  const at::Tensor gathered = of_mebibytes(2);
  enter(watch, Phase::backward);
  const at::Tensor slope = of_mebibytes(3);
  watch.left({});
  expect(watch, {2, 0, 4, 5, 2, 4});
}

TEST_F(MemoryParts, AreThoseAtThePeak) {
  const int64_t before = tensor_bytes();
  Keeping strategy;
  MemoryWatch watch(strategy, before);
  enter(watch, Phase::forward);
  at::Tensor first = of_mebibytes(5);
  const at::Tensor second = of_mebibytes(2);
  first.reset();
  enter(watch, Phase::backward);
  const at::Tensor after = of_mebibytes(3);
  expect(watch, {2, 0, 4, 7, 0, 0});
}

TEST_F(MemoryParts, CountTensorsOfABackwardPassThatTheOptimizerUsesAsGradients) {
  const int64_t before = tensor_bytes();
  Keeping strategy;
  MemoryWatch watch(strategy, before);
  enter(watch, Phase::communication);
  const at::Tensor gathered = of_mebibytes(1);  // before the backward pass
  enter(watch, Phase::backward);
  strategy.gradient = of_mebibytes(2);
  enter(watch, Phase::communication);
  const at::Tensor reduced = of_mebibytes(1);
  enter(watch, Phase::backward);
  of_mebibytes(3);  // freed, and still allocated at the peak
  expect(watch, {2, 0, 4, 0, 2, 5});
  enter(watch, Phase::optimizer);
  expect(watch, {2, 3, 4, 0, 1, 3});
  const at::Tensor after = of_mebibytes(6);
  expect(watch, {2, 3, 4, 0, 1, 6});
}

TEST_F(MemoryParts, CountSharedMemoryOfAKeptTensor) {
  std::vector<char> shared(2 * mebibyte);
  const int64_t before = tensor_bytes();
  Keeping strategy;
  strategy.gradient = at::from_blob(shared.data(), {2 * mebibyte}, at::kByte);
  expect(MemoryWatch(strategy, before), {2, 2, 4, 0, 0, 0});
}

TEST_F(MemoryParts, AreNeverNegativeWhenATensorFromBeforeTheStrategyIsFreed) {
  at::Tensor earlier = of_mebibytes(5);
  const int64_t before = tensor_bytes();
  Keeping strategy;
  MemoryWatch watch(strategy, before);
  earlier.reset();
  enter(watch, Phase::forward);
  const at::Tensor activation = of_mebibytes(1);
  expect(watch, {2, 0, 4, 1, 0, 0});
}

TEST_F(MemoryParts, CountEachBlockOnce) {
  const int64_t before = tensor_bytes();
  Keeping strategy;
  strategy.gradient = strategy.moment.narrow(0, 0, 10);
  expect(MemoryWatch(strategy, before), {2, 4, 0, 0, 0, 0});
}

TEST_F(MemoryParts, AreUnknownForAStrategyThatShowsCopies) {
  const int64_t before = tensor_bytes();
  Keeping strategy;
  strategy.copies = true;
  EXPECT_FALSE(MemoryWatch(strategy, before).peak());
  strategy.copies = false;
  EXPECT_TRUE(MemoryWatch(strategy, before).peak());
}

TEST_F(MemoryParts, EndWithTheirWatch) {
  const int64_t before = tensor_bytes();
  Keeping strategy;
  {
    MemoryWatch watch(strategy, before);
  }
  const at::Tensor later = of_mebibytes(1);  // would call a watch that no longer exists
  EXPECT_NEAR(static_cast<double>(tensor_bytes() - before) / mebibyte, 7, 0.03);
}

}  // namespace
}  // namespace dpbench
