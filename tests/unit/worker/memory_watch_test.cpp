// Tests how the memory of a strategy's tensors is divided into parts: parameters, gradients, state, activations,
// buffers, temporary.
#include "harness/worker/measure/memory_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace dpbench {
namespace {

constexpr int64_t mebibyte = 1 << 20;

at::Tensor of_mebibytes(int64_t count) { return at::empty({count * mebibyte}, at::kByte); }

// A strategy with one parameter, its gradient and one tensor of optimizer state. It takes no steps.
class Keeping : public Strategy {
 public:
  StepResult step(int64_t, std::span<const Batch>, Phases&) override { return {}; }
  at::Tensor forward(const Batch&) override { return {}; }
  NamedTensors parameters() override { return {{"p", copies ? parameter.clone() : parameter}}; }
  NamedTensors gradients() override {
    return {{"p", copies_of_gradients && gradient.defined() ? gradient.clone() : gradient}};
  }
  NamedTensors buffers() override { return {}; }
  NamedTensors state() override { return {{"p.moment", moment}}; }

  bool copies = false, copies_of_gradients = false;
  at::Tensor parameter = of_mebibytes(2), gradient, moment = of_mebibytes(4);
};

// Enables the count of tensor memory for the rest of the program, as dpbench's worker does.
class MemoryByPart : public testing::Test {
 protected:
  static void SetUpTestSuite() { count_tensor_memory(); }
  void begin() { watch_.begin(strategy_); }
  void enter(Phase phase) { watch_.entered(phase, {}); }

  // Expects that these parts, in MiB, were in use at the peak: parameters, gradients, state, activations, buffers,
  // temporary. An allocated block may be a page larger than its tensor.
  void expect(const std::vector<double>& wanted) {
    const auto peak = watch_.end(strategy_);
    ASSERT_TRUE(peak);
    const std::vector<int64_t> found = {peak->parameters,  peak->gradients, peak->state,
                                        peak->activations, peak->buffers,   peak->temporary};
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(static_cast<double>(found[i]) / mebibyte, wanted[i], 0.03) << "part " << i;
  }

  at::Tensor earlier_ = of_mebibytes(5);
  MemoryWatch watch_;
  Keeping strategy_;
};

TEST_F(MemoryByPart, ParametersGradientsAndStateAreInTheirPartsAndOtherTensorsInTheBuffers) {
  strategy_.gradient = of_mebibytes(1);
  const at::Tensor other = of_mebibytes(3);
  begin();
  expect({2, 1, 4, 0, 3, 0});
}

TEST_F(MemoryByPart, ATensorCountsInThePartOfThePhaseInWhichItWasAllocated) {
  begin();
  enter(Phase::data);
  const at::Tensor moved = of_mebibytes(1);
  enter(Phase::forward);
  const at::Tensor activation = of_mebibytes(5);
  enter(Phase::communication);
  const at::Tensor gathered = of_mebibytes(2);
  enter(Phase::backward);
  const at::Tensor slope = of_mebibytes(3);
  expect({2, 0, 4, 5, 2, 4});
}

TEST_F(MemoryByPart, IsTakenAtTheMomentOfPeakMemory) {
  begin();
  enter(Phase::forward);
  at::Tensor first = of_mebibytes(5);
  const at::Tensor second = of_mebibytes(2);
  first.reset();
  enter(Phase::backward);
  const at::Tensor after = of_mebibytes(3);
  expect({2, 0, 4, 7, 0, 0});
}

TEST_F(MemoryByPart, ATensorAllocatedInTheStepIsAGradientIfTheStrategyReportsItAsOne) {
  begin();
  enter(Phase::backward);
  strategy_.gradient = of_mebibytes(2);
  const at::Tensor output = of_mebibytes(1);
  of_mebibytes(3);  // this tensor is freed at once, but it is alive at the peak
  enter(Phase::optimizer);
  expect({2, 2, 4, 0, 0, 4});
}

TEST_F(MemoryByPart, GradientsAllocatedAfterThePeakAreNotCounted) {
  begin();
  enter(Phase::forward);
  of_mebibytes(9);
  enter(Phase::backward);
  strategy_.gradient = of_mebibytes(2);
  expect({2, 0, 4, 9, 0, 0});
}

TEST_F(MemoryByPart, GradientsThatTheStrategyReportsAsCopiesAreTemporary) {
  strategy_.copies_of_gradients = true;
  begin();
  enter(Phase::forward);
  const at::Tensor activation = of_mebibytes(1);
  enter(Phase::backward);
  strategy_.gradient = of_mebibytes(2);
  expect({2, 0, 4, 1, 0, 2});
}

TEST_F(MemoryByPart, AGradientInMemoryThatTorchDidNotAllocateIsInTheGradients) {
  std::vector<char> shared(2 * mebibyte);
  strategy_.gradient = at::from_blob(shared.data(), {2 * mebibyte}, at::kByte);
  begin();
  expect({2, 2, 4, 0, 0, 0});
}

TEST_F(MemoryByPart, MemorySharedByAGradientAndTheOptimizerStateCountsOnceAsGradients) {
  strategy_.gradient = strategy_.moment.narrow(0, 0, 10);
  begin();
  expect({2, 4, 0, 0, 0, 0});
}

TEST_F(MemoryByPart, TensorsAllocatedBeforeTheWatchExistedAreInNoPart) {
  const at::Tensor other = of_mebibytes(3);
  begin();
  earlier_.reset();
  enter(Phase::forward);
  const at::Tensor activation = of_mebibytes(1);
  expect({2, 0, 4, 1, 3, 0});
}

TEST_F(MemoryByPart, IsUnknownIfTheStrategyReportsCopiesOfItsParameters) {
  strategy_.copies = true;
  begin();
  EXPECT_FALSE(watch_.end(strategy_));
}

// A tensor watcher that counts the allocations and frees of which it is told.
struct Counting : TensorWatcher {
  void allocated(const void*, int64_t) override { ++calls; }
  void freed(const void*, int64_t) override { ++calls; }
  int calls = 0;
};

TEST(MemoryWatch, RemovesTheTensorWatcherWhenItIsDestroyed) {
  count_tensor_memory();
  Counting counting;
  {
    const MemoryWatch watch;
    watch_tensors(&counting);
    of_mebibytes(1);
    EXPECT_EQ(counting.calls, 2);
  }
  of_mebibytes(1);
  EXPECT_EQ(counting.calls, 2);
}

}  // namespace
}  // namespace dpbench
