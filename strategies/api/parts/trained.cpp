#include "strategies/api/parts/trained.h"

#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "strategies/api/parts/broadcast.h"
#include "strategies/api/parts/same_model.h"

namespace dpbench {

void TrainedStrategy::Insides::train(const Replica& replica) {
  main = &replica;
  trainable = tensors_of(replica.trainable());
  optimizer.emplace(workload.optimizer(), replica.trainable());
}

void TrainedStrategy::Insides::clip() const {
  if (clip_norm) clip_gradients(main->trainable(), *clip_norm);
}

TrainedStrategy::TrainedStrategy(std::unique_ptr<Insides> insides) : insides_(std::move(insides)) {}

TrainedStrategy::TrainedStrategy(const Setup& setup) : TrainedStrategy(std::make_unique<Insides>(setup)) {
  insides_->own =
      std::make_unique<Replica>(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed);
  if (setup.mesh.group()) {
    require_same_model(*setup.mesh.group(), *insides_->own);
    broadcast_from(0, setup.mesh.group(), insides_->own->detached());
  }
  insides_->train(*insides_->own);
}

TrainedStrategy::~TrainedStrategy() = default;

at::Tensor TrainedStrategy::forward(const Batch& mine) { return insides_->main->evaluate(mine); }
NamedTensors TrainedStrategy::parameters() { return insides_->main->parameters(); }
NamedTensors TrainedStrategy::gradients() { return insides_->main->gradients(); }
NamedTensors TrainedStrategy::buffers() { return insides_->main->buffers(); }
NamedTensors TrainedStrategy::state() { return insides_->optimizer->state(); }

const std::vector<at::Tensor>& TrainedStrategy::trainable() const { return insides_->trainable; }

StepResult TrainedStrategy::passes(int64_t step, std::span<const Batch> micro, Phases& phases) {
  if (micro.empty()) throw std::runtime_error("this rank has no samples in step " + std::to_string(step));
  insides_->main->clear_gradients();
  return insides_->main->passes(insides_->workload, step, micro, phases);
}

void TrainedStrategy::apply_gradients(int64_t step, Phases& phases) {
  phases.enter(Phase::optimizer);
  insides_->clip();
  insides_->optimizer->step(step);
}

void BuiltInStrategy::apply_gradients(int64_t step, Phases& phases, int replicas,
                                      const Optimizer::RunParallel& run_parallel) {
  phases.enter(Phase::optimizer);
  insides_->clip();
  insides_->optimizer->step_in_shares(step, replicas, run_parallel);
}

}  // namespace dpbench
