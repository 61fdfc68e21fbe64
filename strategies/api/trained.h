// Base class for strategies that train one copy of the model per process, on the process's first device. It provides
// the model, forward and backward pass, the optimizer and the accessors. A strategy adds the exchange of gradients
// between ranks.
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
  // Builds the model. If the setup has a process group, the call is collective: it broadcasts rank 0's parameters and
  // buffers and throws if the ranks' models differ in a name, shape or dtype.
  explicit TrainedStrategy(const Setup& setup);

  // Returns each trained tensor once, even if it has several names. A tensor that no pass used has an undefined
  // .grad().
  const std::vector<at::Tensor>& trainable() const;
  // Clears the gradients, then runs forward and backward pass over every micro-batch. Throws if this rank has no
  // samples.
  StepResult passes(int64_t step, std::span<const Batch> micro, Phases& phases);
  // Clips the global gradient norm to Setup::clip_norm, if set, and steps the optimizer at this step's learning rate.
  void apply_gradients(int64_t step, Phases& phases);

  struct Insides;  // data members of a TrainedStrategy, defined in strategies/api/parts/trained.h
  explicit TrainedStrategy(std::unique_ptr<Insides> insides);
  std::unique_ptr<Insides> insides_;
};

}  // namespace dpbench
