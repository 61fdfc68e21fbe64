#include "strategies/graphs/recorded_steps.h"

#include <utility>

#include <ATen/ATen.h>

#include "workloads/base/error.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench {

MakeStepRecorder& step_recorder() {
  static MakeStepRecorder make = nullptr;
  return make;
}

std::unique_ptr<StepRecorder> recorder_for(const Setup& setup, const std::string& asked) {
  if (!step_recorder()) throw UsageError(asked + " needs GPUs and the CUDA library, which is not loaded; leave it off");
  const at::Device device = setup.devices.at(0);
  std::unique_ptr<StepRecorder> recorder;
  try {
    recorder = step_recorder()(device);
  } catch (const UsageError& error) {
    throw UsageError(asked + ": " + error.what());
  }
  if (!setup.group) return recorder;
  const std::string backend = setup.group->getBackend(device.type())->getBackendName();  // also of one that is watched
  if (!recorder->takes_backend(backend))
    throw UsageError(asked + " and --backend " + backend +
                     " do not go together: its collectives are the host's work, and only the " +
                     "device's can be recorded; use nccl, or leave it off");
  return recorder;
}

RecordedSteps::RecordedSteps(std::unique_ptr<StepRecorder> recorder, at::Device device, int64_t eager_steps)
    : recorder_(std::move(recorder)),
      eager_steps_(eager_steps),
      step_(at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(device))) {}

RecordedSteps::Shape RecordedSteps::shape_of(std::span<const Batch> micro) {
  Shape shape;
  for (const Batch& batch : micro)
    for (const at::Tensor* tensor : {&batch.input, &batch.target}) {
      shape.push_back(static_cast<int64_t>(tensor->scalar_type()));
      shape.push_back(tensor->dim());
      shape.insert(shape.end(), tensor->sizes().begin(), tensor->sizes().end());
    }
  return shape;
}

StepResult RecordedSteps::step(int64_t step, std::span<const Batch> micro, const Replica& replica, Phases& phases,
                               const Body& body) {
  phases.enter(Phase::data);
  const auto [found, first] = kinds_.try_emplace(shape_of(micro));
  Kind& kind = found->second;
  if (first) kind.rows.emplace(micro, replica.device(), replica.storage());
  kind.rows->load(micro);
  if (std::exchange(next_step_, step + 1) != step) step_.fill_(step);
  if (kind.eager < eager_steps_) {
    ++kind.eager;
    take(kind, replica, phases, body);
    return kind.result;
  }
  if (!kind.graph) {
    kind.graph = recorder_->record([this, &kind, &replica, body] {
      Phases none;
      take(kind, replica, none, body);
    });
  }
  phases.enter(Phase::graph);
  kind.graph->replay();
  show_gradients(kind, replica);
  return kind.result;
}

void RecordedSteps::take(Kind& kind, const Replica& replica, Phases& phases, const Body& body) {
  const RecordedStep number(step_);
  const StepResult result = body(kind.rows->micro(), phases);
  step_.add_(1);
  // Without what autograd hangs on them: a parameter's node remembers the stream of its first use.
  kind.result = {result.output.detach(), result.loss.detach()};
  kind.gradients.clear();
  for (const auto& [name, tensor] : replica.trainable()) kind.gradients.push_back(tensor.grad());
}

// A replay writes the gradients of its own recording; the parameters may have those of another.
void RecordedSteps::show_gradients(const Kind& kind, const Replica& replica) {
  for (size_t i = 0; i < kind.gradients.size(); ++i) replica.trainable()[i].tensor.mutable_grad() = kind.gradients[i];
}

}  // namespace dpbench
