// The optimizers of the workloads, on torch's fused kernels. What torch::optim computes, without its per-tensor loop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench {

// A trainable parameter under the first name it was registered by (a tied one is listed once).
struct Parameter {
  std::string name;
  at::Tensor tensor;
};

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters);

class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, std::vector<Parameter> parameters);
  ~Optimizer();

  // Applies the parameters' gradients; one without a gradient is left alone, its state too.
  void step();
  // The same on the CPU by several threads, each a share of all elements: at_once calls its argument with 0 .. parts -
  // 1, at the same time. One alone where there is little to share, or what cannot be: 16-bit numbers.
  using AtOnce = std::function<void(const std::function<void(int part)>& share)>;
  void step_in_shares(int parts, const AtOnce& at_once);
  // These parameters alone, with these gradients. Other parameters may be stepped at the same time.
  void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);
  // "<parameter>.momentum", ".variance", ".step" of adam; nothing for plain sgd.
  NamedTensors state() const;

 private:
  struct Lists;  // what one fused call takes: parameters of one dtype on one device
  void update(Lists& lists) const;
  void sgd(Lists& lists) const;
  void adam(Lists& lists) const;
  bool can_be_shared() const;
  void step_share(int part, int parts);
  void release_gradients();
  using GradientOf = std::function<at::Tensor(const at::Tensor& parameter)>;
  std::vector<Lists> grouped(const GradientOf& gradient_of);
  void step(std::vector<Lists>& groups);
  bool take_gradients();  // into whole_; false: one is missing
  void step_those_with_gradients();

  struct Slot {
    at::Tensor momentum, variance, step;
  };
  OptimizerSpec spec_;
  std::vector<Parameter> parameters_;
  std::vector<Slot> slots_;
  std::vector<Lists> whole_;  // all parameters
};

// Scales all gradients so that their global L2 norm is at most `limit`; like torch's clip_grad_norm_, without a host
// sync.
void clip_gradients(const std::vector<Parameter>& parameters, double limit);

}  // namespace dpbench
