// Registers a strategy "own-engine" with the mistake of calling torch's engine: loss.backward() instead of
// dpbench::backward(loss).
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/parts/replica.h"
#include "strategies/api/parts/trained.h"

namespace {

using namespace dpbench;

class OwnEngine : public BuiltInStrategy {
 public:
  explicit OwnEngine(const Setup& setup)
      : BuiltInStrategy(setup),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed) {
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    replica_.clear_gradients();
    StepResult result;
    for (const Batch& batch : micro) {
      phases.enter(Phase::forward);
      at::Tensor output = replica_.forward(step, batch);
      at::Tensor loss = loss_of(output, batch.target, micro.size());
      phases.enter(Phase::backward);
      loss.backward();
      add_micro(result, std::move(output), std::move(loss));
    }
    apply_gradients(step, phases);
    return result;
  }

 private:
  Replica replica_;
};

const RegisterStrategy engine{{.name = "own-engine",
                               .summary = "calls torch's engine",
                               .gradient = Gradient::local,
                               .buffers = Buffers::local,
                               .make = make<OwnEngine>,
                               .average_every = 100}};

}  // namespace
