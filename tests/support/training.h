// Plain training on one device, which the tests use to see whether a model can learn a data set.
#pragma once

#include <ATen/Parallel.h>
#include <torch/optim/adam.h>

#include "workloads/api/workload.h"
#include "workloads/data/sampler.h"

namespace dpbench {

struct Training {
  int64_t train_rows, test_rows, epochs;
  double learning_rate = 1e-3;
};

inline double accuracy(const Workload& workload, Model& model, int64_t rows) {
  const at::NoGradGuard no_grad;
  model.eval();
  int64_t correct = 0;
  for (int64_t from = 0; from < rows; from += 500) {
    const auto batch = workload.test_batch(at::arange(from, std::min(from + 500, rows)));
    correct += model.forward(batch.input, {.ids = batch.ids}).argmax(1).eq(batch.target).sum().item<int64_t>();
  }
  model.train();
  return static_cast<double>(correct) / static_cast<double>(rows);
}

// Trains the model with Adam and returns its accuracy on the test samples, from 0 to 1.
inline double train(const Workload& workload, Model& model, const Training& plan) {
  at::set_num_threads(1);
  torch::optim::Adam optimizer(model.parameters(), plan.learning_rate);
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < plan.epochs; ++epoch)
    for (const auto& ids : epoch_order(plan.train_rows, 1, epoch, true).split(64)) {
      const auto batch = workload.batch(ids);
      optimizer.zero_grad();
      workload.loss(model.forward(batch.input, {1, step++, batch.ids}), batch.target).backward();
      optimizer.step();
    }
  return accuracy(workload, model, plan.test_rows);
}

// A classifier without a hidden layer (softmax regression).
class LinearClassifier : public Model {
 public:
  LinearClassifier()
      : weight_(register_parameter("weight", at::zeros({10, 784}))),
        bias_(register_parameter("bias", at::zeros({10}))) {}
  at::Tensor forward(const at::Tensor& input, const Context&) override {
    return at::linear(input.flatten(1), weight_, bias_);
  }

 private:
  at::Tensor weight_, bias_;
};

}  // namespace dpbench
