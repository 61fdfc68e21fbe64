// Base class of a strategy that forwards all calls to an inner strategy. Strategies of tests and of their plug-ins
// derive from this class and override some calls.
#pragma once

#include <memory>

#include "strategies/api/strategy.h"

namespace dpbench {

// Returns the registered strategy `name` with default values for its own parameters.
inline std::unique_ptr<Strategy> with_defaults(const std::string& name, Setup setup) {
  const StrategyInfo& info = strategy_registry().at(name);
  setup.params = Params(info.params, {}, name);
  return info.make(setup);
}

class Around : public Strategy {
 public:
  at::Tensor forward(const Batch& mine) override { return inner_->forward(mine); }
  NamedTensors parameters() override { return inner_->parameters(); }
  NamedTensors gradients() override { return inner_->gradients(); }
  NamedTensors buffers() override { return inner_->buffers(); }
  NamedTensors state() override { return inner_->state(); }

 protected:
  explicit Around(std::unique_ptr<Strategy> inner = nullptr) : inner_(std::move(inner)) {}

  std::unique_ptr<Strategy> inner_;
};

}  // namespace dpbench
