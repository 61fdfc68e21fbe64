#include "strategies/graphs/recorded.h"

#include <span>
#include <utility>

#include <ATen/ATen.h>

#include "strategies/api/parts/trained.h"
#include "strategies/graphs/recorded_steps.h"
#include "strategies/parts/tf32.h"

namespace dpbench {
namespace {

class Recorded : public BuiltInStrategy {
 public:
  Recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32)
      : BuiltInStrategy(setup),
        tf32_(tf32, setup.devices.at(0), "gpu"),
        steps_(std::move(recorder), setup, /*eager_steps=*/1),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed) {
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    return steps_.step(
        step, micro, replica_, phases,
        [this](std::span<const Batch> samples, Phases& parts) { return passes(/*step=*/0, samples, parts); },
        [this](int64_t number, Phases& parts) { apply_gradients(number, parts); });
  }

 private:
  Tf32 tf32_;
  // Declared before replica_, because a replica must be made on the CUDA stream that the recorder sets.
  RecordedSteps steps_;
  Replica replica_;
};

}  // namespace

std::unique_ptr<Strategy> make_recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32) {
  return std::make_unique<Recorded>(setup, std::move(recorder), tf32);
}

}  // namespace dpbench
