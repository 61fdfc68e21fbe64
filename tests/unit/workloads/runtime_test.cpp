// Tests the two runtimes. With torch's runtime, LibTorch runs layers and backward passes; with the fast runtime,
// dpbench runs them. Both give the same bits.
#include "workloads/base/runtime.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "strategies/api/backward.h"
#include "workloads/layers/linear.h"
#include "workloads/layers/loss.h"

namespace dpbench {
namespace {

class RuntimeTest : public testing::Test {
 protected:
  ~RuntimeTest() override { set_runtime(Runtime::fast); }

  at::Tensor loss() const { return cross_entropy(linear(input_, weight_, bias_), labels_); }

  // Returns the weight's gradient of one backward pass.
  template <class Backward>
  at::Tensor gradient(Runtime runtime, const Backward& backward) {
    set_runtime(runtime);
    weight_.mutable_grad() = at::Tensor();
    backward(loss());
    return weight_.grad().clone();
  }

  at::Tensor input_ = at::randn({8, 5}), weight_ = at::randn({3, 5}).requires_grad_(),
             bias_ = at::randn({3}).requires_grad_(), labels_ = at::randint(3, {8});
};

TEST_F(RuntimeTest, TheLossHasTorchsAutogradNodeWithRuntimeTorchAndDpbenchsWithFast) {
  set_runtime(Runtime::torch);
  EXPECT_EQ(loss().grad_fn()->name(), "NllLossBackward0");
  set_runtime(Runtime::fast);
  EXPECT_EQ(loss().grad_fn()->name(), "CrossEntropyBackward");
}

TEST_F(RuntimeTest, RuntimesTorchAndFastGiveTheSameWeightGradientBits) {
  const auto by_dpbench = [](const at::Tensor& loss) { backward(loss); };
  EXPECT_TRUE(at::equal(gradient(Runtime::torch, by_dpbench), gradient(Runtime::fast, by_dpbench)));
}

}  // namespace
}  // namespace dpbench
