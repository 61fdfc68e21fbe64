// Base class for strategies that make their own replicas (copies of the model) or step some parameters by themselves.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "strategies/api/parts/optimizer.h"
#include "strategies/api/parts/replica.h"
#include "strategies/api/trained.h"

namespace dpbench {

struct TrainedStrategy::Insides {
  explicit Insides(const Setup& setup) : workload(setup.workload), clip_norm(setup.clip_norm) {}
  void train(const Replica& replica);
  void clip() const;

  const Workload& workload;
  std::optional<double> clip_norm;
  // The replica (copy of the model) that TrainedStrategy makes; null if the derived strategy makes its own replicas.
  std::unique_ptr<Replica> own = {};
  const Replica* main = nullptr;
  std::vector<at::Tensor> trainable = {};
  std::optional<Optimizer> optimizer = {};
};

// Base class of the strategies dp, dp-upstream and ddp, and of gpu if it records its steps as CUDA graphs. Plug-ins may
// derive from it too.
class BuiltInStrategy : public TrainedStrategy {
 protected:
  explicit BuiltInStrategy(const Setup& setup)
      : TrainedStrategy(std::make_unique<Insides>(setup)), workload_(setup.workload) {}

  // Tells the base class which replica it trains. Call it once in the constructor, when the replica has its initial
  // values.
  void train(const Replica& main) { insides_->train(main); }

  // Returns a micro-batch's loss, divided by `micros`, the number of micro-batches.
  at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, size_t micros) const {
    return micro_loss(workload_, output, target, micros);
  }

  using TrainedStrategy::apply_gradients;
  // Clips the gradients and steps the optimizer, like TrainedStrategy::apply_gradients(), but splits the step among the
  // threads of several replicas.
  void apply_gradients(int64_t step, Phases& phases, int replicas, const Optimizer::RunParallel& run_parallel);
  // Steps the optimizer for these parameters with these gradients, without clipping.
  void apply_gradients(int64_t step, const std::vector<at::Tensor>& parameters,
                       const std::vector<at::Tensor>& gradients) {
    insides_->optimizer->step(step, parameters, gradients);
  }

  const Workload& workload_;
};

}  // namespace dpbench
