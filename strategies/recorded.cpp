#include "strategies/recorded.h"

#include <utility>

#include <ATen/ATen.h>

#include "strategies/recorded_steps.h"
#include "strategies/tf32.h"
#include "strategies/trained.h"

namespace dpbench {
namespace {

class Recorded : public TrainedStrategy {
 public:
  Recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32)
      : TrainedStrategy(setup),
        tf32_(tf32, setup.devices.at(0), "gpu"),
        steps_(std::move(recorder), setup.devices.at(0), /*eager_steps=*/1),
        replica_(setup.workload, setup.devices.at(0), setup.dtype, setup.init_seed, setup.step_seed) {
    train(replica_);
  }

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override {
    return steps_.step(step, micro, replica_, phases,
                       [this](std::span<const Batch> rows, const at::Tensor& number, Phases& parts) { return take(rows, number, parts); });
  }

 private:
  StepResult take(std::span<const Batch> rows, const at::Tensor& step, Phases& phases) {
    replica_.clear_gradients();
    const StepResult result = replica_.passes(workload_, step, rows, phases);
    apply_gradients(phases);
    return result;
  }

  Tf32 tf32_;
  RecordedSteps steps_;  // before the replica, which is made on the recorder's stream
  Replica replica_;
};

}  // namespace

std::unique_ptr<Strategy> make_recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder, bool tf32) {
  return std::make_unique<Recorded>(setup, std::move(recorder), tf32);
}

}  // namespace dpbench
