// The optimizers of the workloads (SGD and Adam), on torch's fused kernels. They give the same results as torch::optim,
// without its loop over tensors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench {

// A trainable parameter and its first registered name. A tied parameter has several names but is listed once.
struct Parameter {
  std::string name;
  at::Tensor tensor;
};

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters);

class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, std::vector<Parameter> parameters);
  ~Optimizer();

  // Steps all parameters with their gradients. Parameters without a gradient are skipped, together with their state.
  void step();
  // Same as step(), but on several CPU threads, each with an equal share of all elements. `run_parallel` calls its
  // argument concurrently with 0 .. parts - 1. Uses one thread if there are few elements or if they cannot be split
  // (16-bit types).
  using RunParallel = std::function<void(const std::function<void(int part)>& share)>;
  void step_in_shares(int parts, const RunParallel& run_parallel);
  // Steps only these parameters, with these gradients. Other parameters may be stepped concurrently.
  void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);
  // Returns the tensors "<parameter>.momentum", ".variance" and ".step" for Adam; an empty list for SGD.
  NamedTensors state() const;

 private:
  struct Lists;  // arguments of one fused kernel call: parameters of one dtype on one device
  void update(Lists& lists) const;
  void sgd(Lists& lists) const;
  void adam(Lists& lists) const;
  bool can_be_split() const;
  void step_share(int part, int parts);
  void release_gradients();
  using GradientOf = std::function<at::Tensor(const at::Tensor& parameter)>;
  std::vector<Lists> grouped(const GradientOf& gradient_of);
  void step(std::vector<Lists>& groups);
  bool take_gradients();  // Collects the gradients in all_lists_. Returns false if a parameter has no gradient.
  void step_available();

  struct Slot {
    at::Tensor momentum, variance, step;
  };
  OptimizerSpec spec_;
  std::vector<Parameter> parameters_;
  std::vector<Slot> slots_;
  std::vector<Lists> all_lists_;  // argument lists of the fused kernel calls for all parameters
};

// Scales all gradients so that their global L2 norm is at most `limit`, like torch's clip_grad_norm_ but without
// waiting for the device.
void clip_gradients(const std::vector<Parameter>& parameters, double limit);

}  // namespace dpbench
