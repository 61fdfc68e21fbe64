// The optimizers of the workloads (SGD with and without momentum, Adam, AdamW), on torch's fused kernels. They give the
// same results as torch::optim, without its loop over tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench {

// A parameter and its first registered name. A tied parameter has several names but occurs only once in a list.
struct Parameter {
  std::string name;
  at::Tensor tensor;
};

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters);

class Optimizer {
 public:
  // dimensions: the number of dimensions of each whole parameter, which decides whether weight decay applies. Needed if
  // `parameters` are flat pieces.
  Optimizer(const OptimizerSpec& spec, const std::vector<Parameter>& parameters,
            const std::vector<int64_t>& dimensions = {});
  ~Optimizer();

  // Steps all parameters with their gradients, at the learning rate of the training step `number`. Parameters without a
  // gradient are skipped, together with their state.
  void step(int64_t number);
  // Same as step(), but on several CPU threads, each with an equal share of all elements. `run_parallel` calls its
  // argument concurrently with 0 .. parts - 1. Uses one thread if a parameter has no gradient, if there are few
  // elements or if tensors cannot be split (not on the CPU, not dense, or of a 16-bit dtype).
  using RunParallel = std::function<void(const std::function<void(int part)>& share)>;
  void step_in_shares(int64_t number, int parts, const RunParallel& run_parallel);
  // Steps only these parameters, with these gradients. Other parameters may be stepped concurrently.
  void step(int64_t number, const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);
  // Returns the optimizer's state: tensors named "<parameter>.<slot>", with the slots of state_slots().
  NamedTensors state() const;

 private:
  struct Lists;  // arguments of one fused kernel call, which steps parameters with the same dtype and weight decay
  // A parameter with its state. `momentum` is Adam's first moment or SGD's momentum buffer.
  struct Entry {
    Parameter parameter;
    double decay;
    at::Tensor momentum, variance, step;
  };
  Entry entry_of(const Parameter& parameter, int64_t dimensions) const;
  void update(const Lists& lists, double rate) const;
  void sgd(const Lists& lists, double rate) const;
  bool can_be_split() const;
  void step_share(double rate, int part, int parts) const;
  void release_gradients();
  using GradientOf = std::function<at::Tensor(const at::Tensor& parameter)>;
  std::vector<Lists> grouped(const GradientOf& gradient_of) const;
  void step(const std::vector<Lists>& groups, double rate) const;
  // Stores all gradients in the argument lists of the fused kernels. Returns false if a parameter has no gradient.
  bool take_gradients();

  OptimizerSpec spec_;
  std::vector<Entry> entries_;
  // Argument lists of the fused kernel calls, one entry per group of parameters with the same dtype and weight decay.
  std::vector<Lists> all_lists_;
};

// Scales all gradients so that their global L2 norm is at most `limit`, like torch's clip_grad_norm_ but without
// waiting for the device.
void clip_gradients(const std::vector<Parameter>& parameters, double limit);

}  // namespace dpbench
