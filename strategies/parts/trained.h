// What the built-in strategies have in common: one replica that counts, and the optimizer that steps it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "strategies/api/trained.h"
#include "strategies/parts/optimizer.h"
#include "strategies/parts/replica.h"

namespace dpbench {

struct TrainedStrategy::Insides {
  explicit Insides(const Setup& setup) : workload(setup.workload), clip_norm(setup.clip_norm) {}
  void train(const Replica& replica);
  void clip() const;

  const Workload& workload;
  std::optional<double> clip_norm;
  std::unique_ptr<Replica> own = {};  // null where the strategy makes its replicas itself
  const Replica* main = nullptr;
  std::vector<at::Tensor> trainable = {};
  std::optional<Optimizer> optimizer = {};
};

// For a strategy that makes its replicas itself.
class BuiltInStrategy : public TrainedStrategy {
 protected:
  explicit BuiltInStrategy(const Setup& setup)
      : TrainedStrategy(std::make_unique<Insides>(setup)), workload_(setup.workload) {}

  // Once in the constructor, when the replica has the values it starts from.
  void train(const Replica& main) { insides_->train(main); }

  // The loss of one of `micros` micro-batches.
  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, size_t micros) const {
    return micro_loss(workload_, output, target, micros);
  }

  using TrainedStrategy::apply_gradients;
  // The same by the threads of several replicas.
  void apply_gradients(Phases& phases, int replicas, const Optimizer::AtOnce& at_once);
  // These parameters alone, with these gradients; no others, and no limit on the norm of all.
  void apply_gradients(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
    insides_->optimizer->step(parameters, gradients);
  }

  const Workload& workload_;
};

}  // namespace dpbench
