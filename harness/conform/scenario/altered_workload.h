// A workload wrapper that modifies the inner workload's models after construction (e.g. different buffers on each rank)
// or scales its loss.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "harness/conform/scenario/wrapped_workload.h"

namespace dpbench {

class AlteredWorkload : public WrappedWorkload {
 public:
  AlteredWorkload(const Workload& inner, std::function<void(Model&)> alter)
      : WrappedWorkload(inner), alter_(std::move(alter)) {}
  AlteredWorkload(const Workload& inner, double factor)
      : WrappedWorkload(inner), alter_([](Model&) {}), factor_(factor) {}

  std::shared_ptr<Model> model(uint64_t seed) const override {
    auto model = inner_.model(seed);
    alter_(*model);
    return model;
  }
  // Sets a function that is called whenever a loss is computed.
  void watch_losses(std::function<void()> watch) { watch_ = std::move(watch); }
  at::Tensor loss(const at::Tensor& output, const at::Tensor& target) const override {
    return scaled(watched().loss(output, target));
  }
  at::Tensor split_loss(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split) const override {
    return scaled(watched().split_loss(output, target, split));
  }

 private:
  const Workload& watched() const {
    if (watch_) watch_();
    return inner_;
  }
  at::Tensor scaled(const at::Tensor& loss) const { return factor_ == 1 ? loss : loss * factor_; }

  std::function<void(Model&)> alter_;
  double factor_ = 1;
  std::function<void()> watch_ = {};
};

}  // namespace dpbench
