#include "strategies/graphs/recorded.h"

#include <span>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/graphs/recorded_steps.h"
#include "strategies/parts/tf32.h"
#include "strategies/parts/trained.h"

namespace dpbench {
namespace {

class Recorded : public BuiltInStrategy {
 public:
  Recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32)
      : BuiltInStrategy(setup),
        tf32_(tf32, setup.devices.at(0), "gpu"),
        optimizer_recorded_(!is_scheduled(setup.workload.optimizer())),
        steps_(std::move(recorder), setup.devices.at(0), /*eager_steps=*/1),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed) {
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    StepResult result = steps_.step(step, micro, replica_, phases, [this](std::span<const Batch> rows, Phases& parts) {
      const StepResult recorded = passes(/*step=*/0, rows, parts);
      if (optimizer_recorded_) apply_gradients(/*step=*/0, parts);
      return recorded;
    });
    if (!optimizer_recorded_) apply_gradients(step, phases);
    return result;
  }

 private:
  Tf32 tf32_;
  bool optimizer_recorded_;  // not with a scheduled learning rate: a recording repeats its rate
  RecordedSteps steps_;      // declared first: its recorder sets the CUDA stream on which the replica is made
  Replica replica_;
};

}  // namespace

std::unique_ptr<Strategy> make_recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32) {
  return std::make_unique<Recorded>(setup, std::move(recorder), tf32);
}

}  // namespace dpbench
