// The drawn digits ask for more than a linear model, and a model with a hidden layer can learn them. In small:
// tests/programs/learn.cpp trains on all 60,000 rows.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/training.h"

namespace dpbench {
namespace {

// Measured: linear 0.83, mlp 0.92 after these 10 epochs.
constexpr Training plan{.train_rows = 6'000, .test_rows = 2'000, .epochs = 10};

TEST(DrawnDigits, AreTooMuchForALinearModelAndNotForOneHiddenLayer) {
  const auto workload = workload_registry().at("mnist-mlp").make({});
  LinearClassifier linear;
  const double by_linear = train(*workload, linear, plan);
  const double by_mlp = train(*workload, *workload->model(1), plan);
  RecordProperty("linear", std::to_string(by_linear));
  RecordProperty("mlp", std::to_string(by_mlp));
  std::cout << "linear " << by_linear << ", mlp " << by_mlp << "\n";
  EXPECT_LT(by_linear, 0.90);
  EXPECT_GT(by_linear, 0.60);  // below, the rows would be noise
  EXPECT_GT(by_mlp, by_linear + 0.04);
}

}  // namespace
}  // namespace dpbench
