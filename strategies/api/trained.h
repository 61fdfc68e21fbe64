// A base class for strategies that train one copy of the model in each process, on its first device: it has the model,
// both passes, the optimizer and the accessors. A strategy adds what the ranks do with their gradients.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench {

class TrainedStrategy : public Strategy {
 public:
  ~TrainedStrategy() override;
  at::Tensor forward(const Batch& mine) override;
  NamedTensors parameters() override;
  NamedTensors gradients() override;
  NamedTensors buffers() override;
  NamedTensors state() override;

 protected:
  // Collective where the setup has a group: every rank starts with rank 0's parameters and buffers. Throws where the
  // ranks' models differ in a name, shape or type.
  explicit TrainedStrategy(const Setup& setup);

  // Each trained tensor once. Its .grad() is undefined where no pass used it.
  const std::vector<at::Tensor>& trainable() const;
  // Clears the gradients, then takes both passes over every micro-batch. Throws where this rank has no rows.
  StepResult passes(int64_t step, std::span<const Batch> micro, Phases& phases);
  // Limits the norm of all gradients to Setup::clip_norm, then steps the optimizer.
  void apply_gradients(Phases& phases);

  struct Insides;  // not part of the interface
  explicit TrainedStrategy(std::unique_ptr<Insides> insides);
  std::unique_ptr<Insides> insides_;
};

}  // namespace dpbench
