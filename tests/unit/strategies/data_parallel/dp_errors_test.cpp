// Errors that dp reports when a replica fails in a step.
#include <chrono>
#include <functional>
#include <future>
#include <new>
#include <stdexcept>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "tests/support/contains.h"
#include "tests/unit/strategies/data_parallel/dp_steps.h"

namespace dpbench {
namespace {

using dp_steps::made;
using dp_steps::take_steps;

// A model that calls `what` in its forward or backward pass if `throws` is true. Only replica 1's model has `throws`
// set to true.
class Throwing : public Model {
 public:
  Throwing(bool throws, bool in_backward, std::function<void()> what)
      : throws_(throws), in_backward_(in_backward), what_(std::move(what)) {
    weight_ = register_parameter("weight", at::ones({2, 5}));
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    if (throws_ && !in_backward_) what_();
    const at::Tensor output = at::linear(input, weight_);
    if (throws_ && in_backward_) output.register_hook([what = what_](const at::Tensor&) { what(); });
    return output * 2;
  }

 private:
  bool throws_, in_backward_;
  std::function<void()> what_;
  at::Tensor weight_;
};

class ThrowingWorkload : public Workload {
 public:
  ThrowingWorkload(bool in_backward, std::function<void()> what) : in_backward_(in_backward), what_(std::move(what)) {}
  int64_t samples() const override { return 100; }
  std::shared_ptr<Model> model(uint64_t) const override {
    return std::make_shared<Throwing>(made_++ == 1, in_backward_, what_);
  }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return at::mse_loss(output, target);
  }
  OptimizerSpec optimizer() const override { return {}; }
  Batch batch(const at::Tensor& ids) const override {
    return {at::ones({ids.size(0), 5}), at::ones({ids.size(0), 2}), ids};
  }

 private:
  bool in_backward_;
  std::function<void()> what_;
  mutable int made_ = 0;  // number of replicas created so far; they are created in the order of their numbers
};

TEST(DpErrors, NameTheFailedReplicaInForwardAndBackwardPasses) {
  for (const bool in_backward : {false, true}) {
    const auto step = [&](const std::function<void()>& what) {
      const ThrowingWorkload workload(in_backward, what);
      take_steps(*made("dp", workload, 3), workload, {{6}});
      ADD_FAILURE() << "nothing was thrown";
    };
    try {
      step([] { throw std::runtime_error("no luck"); });
    } catch (const std::runtime_error& error) {
      EXPECT_TRUE(mentions(error.what(), {"replica 1", "no luck"}));
    }
    try {
      step([] { TORCH_CHECK(false, "of torch's own"); });
    } catch (const c10::Error& error) {
      EXPECT_TRUE(mentions(error.what_without_backtrace(), {"of torch's own", "replica 1"}));
    }
    try {
      step([] { throw std::bad_alloc(); });
    } catch (const std::bad_alloc& error) {
      EXPECT_TRUE(mentions(error.what(), {"replica 1", "memory"}));
    }
  }
}

// A model with an inference tensor, but only in replica 1. An inference tensor has no version counter, so reading its
// version throws.
class Unversioned : public Model {
 public:
  explicit Unversioned(bool versioned) {
    weight_ = register_parameter("weight", at::ones({2, 5}));
    const c10::InferenceMode inference(!versioned);
    register_parameter("mark", at::zeros({1}, at::kLong), /*requires_grad=*/false);
  }
  at::Tensor forward(const at::Tensor& input, const Context&) override { return at::linear(input, weight_); }

 private:
  at::Tensor weight_;
};

class UnversionedWorkload : public ThrowingWorkload {
 public:
  UnversionedWorkload() : ThrowingWorkload(false, {}) {}
  std::shared_ptr<Model> model(uint64_t) const override { return std::make_shared<Unversioned>(made_++ != 1); }

 private:
  mutable int made_ = 0;
};

// Before its forward pass, replica 0 waits until the other replicas have copied its parameters. A replica that fails
// before copying must not block replica 0.
TEST(DpErrors, AStepEndsWithAnErrorIfAReplicaFailsBeforeCopyingParameters) {
  std::promise<std::string> promised_error;
  auto error_of_step = promised_error.get_future();
  std::thread([result = std::move(promised_error)]() mutable {
    const UnversionedWorkload workload;
    try {
      take_steps(*made("dp", workload, 3), workload, {{6, 6}});
      result.set_value("nothing was thrown");
    } catch (const std::exception& error) {
      result.set_value(error.what());
    }
  }).detach();
  ASSERT_EQ(error_of_step.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "the step never ends";
  EXPECT_TRUE(mentions(error_of_step.get(), {"replica 1"}));
}

}  // namespace
}  // namespace dpbench
