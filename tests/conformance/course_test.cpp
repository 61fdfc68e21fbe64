// Tests how the steps of a right strategy are judged if only rounding decides whether one unit of the model has a
// gradient: the float64 course may have none where the strategy, or another float32 course, has one.
#include "harness/conform/judges/judge_course.h"

#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace dpbench {
namespace {

// ReLU units: in sample 0, the first one gets w * v - v * w. This is exactly 0, but a parameter that differs in its
// last place moves it to either side of ReLU's kink. No other sample has an input of the first unit.
class Units : public Model {
 public:
  Units() {
    hidden_ = register_parameter("hidden", at::tensor({0.7F, 0.3F, 0.5F}));
    last_ = register_parameter("last", at::tensor({1.0F, 1.0F}));
  }
  at::Tensor forward(const at::Tensor& input, const Context& /*context*/) override {
    const at::Tensor first = at::matmul(input.narrow(1, 0, 2), hidden_.narrow(0, 0, 2)),
                     second = input.select(1, 2) * hidden_[2];
    return at::matmul(at::relu(at::stack({first, second}, 1)), last_);
  }

 private:
  at::Tensor hidden_, last_;
};

class AtTheKink : public Workload {
 public:
  AtTheKink() : input_(at::zeros({rows, 3})) {
    input_.select(1, 2).copy_(at::linspace(0.5, 1.5, rows));
    input_[0][0] = 0.3F, input_[0][1] = -0.7F;
  }
  int64_t samples() const override { return rows; }
  std::shared_ptr<Model> model(uint64_t /*seed*/) const override { return std::make_shared<Units>(); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return {.learning_rate = 0.1}; }
  Batch batch(const at::Tensor& ids) const override {
    return {input_.index_select(0, ids), at::zeros(ids.numel()), ids};
  }

 private:
  static constexpr int64_t rows = 16;
  at::Tensor input_;
};

class RoundedUnit : public testing::Test {
 protected:
  // Returns the report of a strategy with one rank. It rounds like a float32 course with this seed. The movement of the
  // first unit is multiplied by `farther`.
  std::vector<Evidence> trained(uint64_t jitter, double farther = 1) const {
    Evidence seen;
    for (const auto& item : workload_.model(0)->named_parameters())
      seen.parameters.emplace_back(item.key(), item.value().detach().clone());
    seen.steps.push_back({.ids = {at::arange(workload_.samples())}});
    const Course rounded = course_of(bench_, scenario_, {}, {seen}, /*exact=*/false, jitter);
    for (const auto& [name, after] : rounded.ranks[0].parameters) {
      at::Tensor reported = after.to(at::kFloat).clone();
      const at::Tensor before = *find(seen.parameters, name);
      if (name == "hidden") reported.narrow(0, 0, 2).add_((reported - before).narrow(0, 0, 2), farther - 1);
      seen.steps[0].parameters.emplace_back(name, reported);
    }
    return {seen};
  }

  double error(const std::vector<Evidence>& ranks) const {
    const Trial trial{bench_, scenario_, {}, ranks, {}, {}, {}};
    return deviations_of(trial, course_of(bench_, scenario_, {}, ranks, /*exact=*/true)).course.error;
  }

  static bool moved(const std::vector<Evidence>& ranks) {
    return ranks[0].steps[0].parameters[0].second[0].item<float>() != ranks[0].parameters[0].second[0].item<float>();
  }

  const AtTheKink workload_;
  const StrategyInfo info_{.name = "by-hand", .summary = "", .make = {}};
  const Bench bench_{info_, workload_, {Parallelism::ranks, 1, 16, workload_.samples()}, 0, {}, {at::Device(at::kCPU)},
                     {},    1};
  const Scenario scenario_{.name = "audit", .gradient_check = "audit", .dtype = at::kFloat, .steps = 1};
};

TEST_F(RoundedUnit, IsNoErrorWhetherItHasAGradientOrNot) {
  int with_gradient = 0;
  constexpr int strategies = 20;
  for (uint64_t jitter = 1000; jitter < 1000 + strategies; ++jitter) {
    const auto ranks = trained(jitter);
    with_gradient += moved(ranks);
    EXPECT_LE(error(ranks), 1) << "roundings " << jitter;
  }
  EXPECT_GT(with_gradient, 0);
  EXPECT_LT(with_gradient, strategies);
}

TEST_F(RoundedUnit, IsAnErrorIfItMovesMuchFartherThanInAnyCourse) {
  for (uint64_t jitter = 1000; jitter < 1020; ++jitter) {
    if (!moved(trained(jitter))) continue;
    EXPECT_GT(error(trained(jitter, 100)), 1) << "roundings " << jitter;
  }
}

}  // namespace
}  // namespace dpbench
