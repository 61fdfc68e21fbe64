// Trains on all synthetic digits and prints the test accuracy. Exits with 1 unless a linear model stays below 93 % and
// the convnet exceeds 97 % after 2 epochs. Takes a minute on one core.
#include <ATen/ATen.h>

#include <cstdio>

#include "tests/support/training.h"

int main() {
  using namespace dpbench;
  const auto mlp = workload_registry().at("mnist-mlp").make({});
  const auto convnet = workload_registry().at("convnet").make({});
  const Training plan{.train_rows = mlp->samples(), .test_rows = mlp->test_samples(), .epochs = 2};
  LinearClassifier model;
  const double linear_accuracy = train(*mlp, model, plan);
  const double mlp_accuracy = train(*mlp, *mlp->model(1), plan);
  const double convnet_accuracy = train(*convnet, *convnet->model(1), plan);
  std::printf("test accuracy after 2 epochs of Adam: linear %.2f %%, mnist-mlp %.2f %%, convnet %.2f %%\n",
              100 * linear_accuracy, 100 * mlp_accuracy, 100 * convnet_accuracy);
  return linear_accuracy < 0.93 && convnet_accuracy > 0.97 ? 0 : 1;
}
