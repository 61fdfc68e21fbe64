#include "strategies/graphs/recorded_steps.h"

#include <stdexcept>
#include <utility>

#include <ATen/ATen.h>

#include "workloads/base/error.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench {

MakeStepRecorder& step_recorder() {
  static MakeStepRecorder make = nullptr;
  return make;
}

std::unique_ptr<StepRecorder> recorder_for(const Setup& setup, const std::string& option) {
  if (!step_recorder())
    throw UsageError(option + " needs GPUs and the CUDA library, which is not loaded. Leave the option off.");
  const at::Device device = setup.devices.at(0);
  std::unique_ptr<StepRecorder> recorder;
  try {
    recorder = step_recorder()(device);
  } catch (const UsageError& error) {
    throw UsageError(option + ": " + error.what());
  }
  if (!setup.mesh.group()) return recorder;
  // In the conformance suite the group's backend is a wrapper, which reports the name of the wrapped backend.
  const std::string backend = setup.mesh.group()->getBackend(device.type())->getBackendName();
  if (!recorder->takes_backend(backend))
    throw UsageError(option + " and --backend " + backend +
                     " cannot be combined: the backend runs collectives on the host, and only work of the device can " +
                     "be recorded. Use --backend nccl, or leave the option off.");
  return recorder;
}

void require_recordable(const Model& model, const std::string& owner) {
  if (!model.expert_plan(1).cuts.empty())
    throw UsageError(owner + ".graph=on: steps of a model with experts cannot be recorded. Use graph=off");
}

RecordedSteps::RecordedSteps(std::unique_ptr<StepRecorder> recorder, const Setup& setup, int64_t eager_steps)
    : recorder_(std::move(recorder)),
      owner_(setup.params.owner()),
      several_ranks_(setup.mesh.group() && setup.mesh.group()->getSize() > 1),
      eager_steps_(eager_steps),
      update_recorded_(!is_scheduled(setup.workload.optimizer())),
      step_(at::zeros({1}, at::TensorOptions().dtype(at::kLong).device(setup.devices.at(0)))) {}

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
                               const Passes& passes, const Update& update) {
  phases.enter(Phase::data);
  if (shapes_.empty()) require_recordable(*replica.shared_model(), owner_);
  const Shape shape = shape_of(micro);
  if (several_ranks_) require_same_kind_on_all_ranks(step, micro, shape);
  const auto [found, first] = shapes_.try_emplace(shape);
  ShapeState& state = found->second;
  if (first) state.batches.emplace(micro, replica.device(), replica.storage());
  state.batches->load(micro);
  if (std::exchange(next_step_, step + 1) != step) step_.fill_(step);
  if (state.eager < eager_steps_) {
    ++state.eager;
    run(state, replica, phases, passes, update);
  } else {
    if (!state.graph) {
      // The lambda copies `passes` and `update`, because it may be called again after this function: the recorder of
      // the tests calls it at each replay.
      state.graph = recorder_->record([this, &state, &replica, passes, update] {
        Phases none;
        run(state, replica, none, passes, update);
      });
    }
    phases.enter(Phase::graph);
    state.graph->replay();
    set_gradients(state, replica);
  }
  if (!update_recorded_) update(step, phases);
  return state.result;
}

// Throws if some ranks might record this step while others replay it, which NCCL does not allow. The ranks' sample
// counts in a step differ by at most one. If this rank has a count for the first time, but has had a count that differs
// by one, another rank may have had the new count in that earlier step and would replay now. Samples that are padded to
// the longest of a batch have shapes that differ between ranks in any way.
void RecordedSteps::require_same_kind_on_all_ranks(int64_t step, std::span<const Batch> micro, const Shape& shape) {
  int64_t samples = 0;
  for (const Batch& batch : micro) samples += batch.samples();
  const std::string owner = owner_ + ".graph", now = " samples in step " + std::to_string(step);
  const auto [found, first] = of_samples_.try_emplace(samples, shape);
  if (!first && found->second != shape)
    throw std::runtime_error(owner + "=on: this rank's " + std::to_string(samples) + now +
                             " have other shapes than in an earlier step. Another rank may replay a step that this " +
                             "rank records. Pad all samples to the same length, or use " + owner + "=off.");
  if (!first) return;
  for (const int64_t other : {samples - 1, samples + 1})
    if (of_samples_.contains(other))
      throw std::runtime_error(owner + "=on: this rank has " + std::to_string(samples) + now + " and had " +
                               std::to_string(other) + " before. Another rank may replay a step that this rank " +
                               "records. Use a --batch that leaves a different remainder, or " + owner + "=off.");
}

void RecordedSteps::run(ShapeState& state, const Replica& replica, Phases& phases, const Passes& passes,
                        const Update& update) {
  const RecordedStep number(step_);
  const StepResult result = passes(state.batches->micro(), phases);
  if (update_recorded_) update(/*step=*/0, phases);
  step_.add_(1);
  // Detaching the step's output and loss releases the autograd graph. Its AccumulateGrad nodes remember the stream of
  // their first use, and later passes make new ones.
  state.result = {result.output.detach(), result.loss.detach()};
  state.gradients.clear();
  for (const auto& [name, tensor] : replica.trainable()) state.gradients.push_back(tensor.grad());
}

// Makes the parameters' .grad the tensors that the CUDA graph of this batch shape writes. Before, .grad may be the
// tensors of another shape's graph.
void RecordedSteps::set_gradients(const ShapeState& state, const Replica& replica) {
  for (size_t i = 0; i < state.gradients.size(); ++i) replica.trainable()[i].tensor.mutable_grad() = state.gradients[i];
}

}  // namespace dpbench
