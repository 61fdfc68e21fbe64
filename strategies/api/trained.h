// Base class for strategies that train one copy of the model per process, on its first device. Provides the model, both
// passes, the optimizer and the accessors. A strategy adds the exchange of gradients between ranks.
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
  // Collective if the setup has a group: broadcasts rank 0's parameters and buffers. Throws if the ranks' models differ
  // in a name, shape or dtype.
  explicit TrainedStrategy(const Setup& setup);

  // Each trained tensor once, tied or not. .grad() is undefined if no pass used the tensor.
  const std::vector<at::Tensor>& trainable() const;
  // Clears the gradients, then runs both passes over every micro-batch. Throws if this rank has no samples.
  StepResult passes(int64_t step, std::span<const Batch> micro, Phases& phases);
  // Clips the global gradient norm to Setup::clip_norm, then steps the optimizer.
  void apply_gradients(Phases& phases);

  struct Insides;  // not part of the interface
  explicit TrainedStrategy(std::unique_ptr<Insides> insides);
  std::unique_ptr<Insides> insides_;
};

}  // namespace dpbench
