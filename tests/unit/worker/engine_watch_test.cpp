// EngineWatch distinguishes backward passes of torch's engine from dpbench's own, for layers of torch and of dpbench.
#include "harness/worker/measure/engine_watch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "strategies/api/backward.h"
#include "workloads/base/runtime.h"
#include "workloads/layers/linear.h"

namespace dpbench {
namespace {

class EngineWatchTest : public testing::Test {
 protected:
  EngineWatchTest() { set_runtime(Runtime::fast); }

  // Returns the number of nodes that torch's autograd engine runs in a backward pass.
  template <class Backward>
  int64_t nodes(const at::Tensor& loss, const Backward& backward) const {
    const EngineWatch watch;
    backward(loss);
    return watch.nodes();
  }
  at::Tensor of_torch() const { return at::mse_loss(at::matmul(input_, weight_), at::zeros({8, 3})); }
  at::Tensor of_dpbench() const { return linear(input_, transposed_, bias_).sum(); }

  at::Tensor input_ = at::randn({8, 5}), weight_ = at::randn({5, 3}).requires_grad_(),
             transposed_ = at::randn({3, 5}).requires_grad_(), bias_ = at::randn({3}).requires_grad_();
};

TEST_F(EngineWatchTest, CountsTheNodesThatTorchsEngineRuns) {
  const auto by_engine = [](const at::Tensor& loss) { loss.backward(); };
  EXPECT_EQ(nodes(of_torch(), by_engine), 3) << "loss, product, weight";
  EXPECT_GT(nodes(of_dpbench(), by_engine), 0);
}

TEST_F(EngineWatchTest, CountsNoNodesIfDpbenchsBackwardFunctionReplacesTorchsEngine) {
  const auto by_dpbench = [](const at::Tensor& loss) { backward(loss); };
  EXPECT_EQ(nodes(of_torch(), by_dpbench), 0);
  EXPECT_EQ(nodes(of_dpbench(), by_dpbench), 0);
  EXPECT_EQ(nodes(of_torch(), [](const at::Tensor& loss) { backward_with_callbacks(loss); }), 0)
      << "the engine runs the walk as one node";
}

}  // namespace
}  // namespace dpbench
