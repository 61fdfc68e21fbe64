// Tests the class Activation in a build without its assertions on a tensor's distribution over the ranks: it stores
// only the tensor, and accepts every operation.
#define DPBENCH_TYPED_ACTIVATIONS 0
#include "strategies/api/parts/activation.h"

#include <gtest/gtest.h>

namespace dpbench {
namespace {

TEST(ActivationsWithoutTypeChecks, StoreOnlyATensorAndAcceptAnyDistribution) {
  static_assert(sizeof(Activation) == sizeof(at::Tensor));
  const Axis tp{.name = "tp"};
  const Activation x(at::ones({2}), tp, Spread::partial);
  EXPECT_TRUE(varying_to_replicate(x, tp, {0, {2}}).tensor().is_same(x.tensor()));
  const auto doubled = computed(Rule::nonlinear, "twice", tp, [](const at::Tensor& tensor) { return tensor * 2; }, x);
  EXPECT_TRUE(doubled.tensor().equal(at::full({2}, 2.0)));
}

}  // namespace
}  // namespace dpbench
