#include "strategies/recorded.h"

#include <utility>

#include <ATen/ATen.h>

#include "strategies/recorded_steps.h"
#include "strategies/trained.h"

namespace dpbench {
namespace {

class Recorded : public TrainedStrategy {
 public:
  Recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder)
      : TrainedStrategy(setup),
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
    StepResult result;
    for (const Batch& batch : rows) {
      phases.enter(Phase::forward);
      const at::Tensor output = replica_.forward(step, batch);
      const at::Tensor loss = loss_of(output, batch.target, rows.size());
      phases.enter(Phase::backward);
      loss.backward();
      add_micro(result, output, loss);
    }
    apply_gradients(phases);
    return result;
  }

  RecordedSteps steps_;  // first: the replica is made on the recorder's stream
  Replica replica_;
};

}  // namespace

std::unique_ptr<Strategy> make_recorded(const Setup& setup, std::unique_ptr<StepRecorder> recorder) {
  return std::make_unique<Recorded>(setup, std::move(recorder));
}

}  // namespace dpbench
