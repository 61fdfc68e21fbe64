// What the built-in strategies have in common: one replica that counts, and the optimizer that steps it.
#pragma once

#include <optional>

#include "strategies/optimizer.h"
#include "strategies/replica.h"

namespace dpbench {

class TrainedStrategy : public Strategy {
 public:
  at::Tensor forward(const Batch& mine) override { return main_->evaluate(mine); }
  NamedTensors parameters() override { return main_->parameters(); }
  NamedTensors gradients() override { return main_->gradients(); }
  NamedTensors buffers() override { return main_->buffers(); }
  NamedTensors state() override { return optimizer_->state(); }

 protected:
  explicit TrainedStrategy(const Setup& setup) : workload_(setup.workload), clip_norm_(setup.clip_norm) {}

  // Once in the constructor, when the replica has the values it starts from.
  void train(const Replica& main) {
    main_ = &main;
    optimizer_.emplace(workload_.optimizer(), main.trainable());
  }

  // The loss of one of `micros` micro-batches.
  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, size_t micros) const {
    return micro_loss(workload_, output, target, micros);
  }

  void apply_gradients(Phases& phases) {
    phases.enter(Phase::optimizer);
    if (clip_norm_) clip_gradients(main_->trainable(), *clip_norm_);
    optimizer_->step();
  }

  // The same by the threads of several replicas.
  void apply_gradients(Phases& phases, int replicas, const Optimizer::AtOnce& at_once) {
    phases.enter(Phase::optimizer);
    if (clip_norm_) clip_gradients(main_->trainable(), *clip_norm_);
    optimizer_->step_in_shares(replicas, at_once);
  }

  // These parameters alone, with these gradients; no others, and no limit on the norm of all.
  void apply_gradients(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
    optimizer_->step(parameters, gradients);
  }

  const Workload& workload_;

 private:
  std::optional<double> clip_norm_;
  const Replica* main_ = nullptr;
  std::optional<Optimizer> optimizer_;
};

}  // namespace dpbench
