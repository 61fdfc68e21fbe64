// The generated digits are too hard for a linear model but not for one hidden layer. A small version of
// tests/programs/learn.cpp, which trains on all 60,000 samples.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/training.h"

namespace dpbench {
namespace {

// Measured accuracy after 10 epochs: linear 0.83, mlp 0.92.
constexpr Training plan{.train_rows = 6'000, .test_rows = 2'000, .epochs = 10};

TEST(DrawnDigits, NeedAHiddenLayer) {
  const auto workload = workload_registry().at("mnist-mlp").make({});
  LinearClassifier linear;
  const double linear_accuracy = train(*workload, linear, plan);
  const double mlp_accuracy = train(*workload, *workload->model(1), plan);
  RecordProperty("linear", std::to_string(linear_accuracy));
  RecordProperty("mlp", std::to_string(mlp_accuracy));
  std::cout << "linear " << linear_accuracy << ", mlp " << mlp_accuracy << "\n";
  EXPECT_LT(linear_accuracy, 0.90);
  EXPECT_GT(linear_accuracy, 0.60);  // lower would mean that the digits are noise
  EXPECT_GT(mlp_accuracy, linear_accuracy + 0.04);
}

}  // namespace
}  // namespace dpbench
