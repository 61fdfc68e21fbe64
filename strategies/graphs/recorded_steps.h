// Steps that are recorded as a CUDA graph once per batch shape and then replayed. Used by the parameters gpu.graph and
// ddp.graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "strategies/api/parts/replica.h"
#include "strategies/graphs/packed_batches.h"
#include "strategies/graphs/step_graph.h"

namespace dpbench {

// Returns a recorder for the setup's device. Throws UsageError, prefixed with `option`, if steps on this device or with
// this process group cannot be recorded.
std::unique_ptr<StepRecorder> recorder_for(const Setup& setup, const std::string& option);

// Throws UsageError if the model has experts: a CUDA graph fixes the sizes of all tensors, but the number of tokens
// that an expert gets changes from step to step. owner: the strategy's name.
void require_recordable(const Model& model, const std::string& owner);

class RecordedSteps {
 public:
  // A function that runs the forward and backward passes of one step on samples in device memory. It reads the step
  // number from the device too (RecordedStep), and must not read host state that changes between steps.
  using Passes = std::function<StepResult(std::span<const Batch> micro, Phases& phases)>;
  // A function that updates the parameters. It is recorded together with the passes, with step number 0. With a
  // scheduled learning rate it is not recorded, because each replay would use the same rate; it then runs after each
  // step's passes.
  using Update = std::function<void(int64_t step, Phases& phases)>;

  // Must be constructed before all tensors that steps use, so that these are made on the recorder's CUDA stream.
  // eager_steps: number of steps of each shape that run before recording.
  RecordedSteps(std::unique_ptr<StepRecorder> recorder, const Setup& setup, int64_t eager_steps);
  RecordedSteps(const RecordedSteps&) = delete;
  RecordedSteps& operator=(const RecordedSteps&) = delete;

  // Runs one step: eagerly, recording it, or as a replay. replica: the replica that `passes` trains; the same in every
  // call. Throws if another rank may replay a step that this rank records.
  StepResult step(int64_t step, std::span<const Batch> micro, const Replica& replica, Phases& phases,
                  const Passes& passes, const Update& update);

 private:
  // Shape of a step: dtypes and sizes of all its micro-batches. Each different shape needs its own recording: steps of
  // 30, 30, 30 and 10 samples need two.
  using Shape = std::vector<int64_t>;
  static Shape shape_of(std::span<const Batch> micro);

  // The device memory and CUDA graph for one shape. Every replay reads and writes the same addresses.
  struct ShapeState {
    std::optional<PackedBatches> batches;
    int64_t eager = 0;  // number of eager steps of this shape so far
    StepResult result = {};
    std::vector<at::Tensor> gradients = {};
    std::unique_ptr<StepGraph> graph = {};
  };
  void require_same_kind_on_all_ranks(int64_t step, std::span<const Batch> micro);
  void run(ShapeState& state, const Replica& replica, Phases& phases, const Passes& passes, const Update& update);
  static void set_gradients(const ShapeState& state, const Replica& replica);

  // The recorder of CUDA graphs is declared first, so that all other members are made on its CUDA stream.
  std::unique_ptr<StepRecorder> recorder_;
  std::string owner_;  // the strategy's name
  bool several_ranks_;
  int64_t eager_steps_;
  bool update_recorded_;
  at::Tensor step_;        // number of the next step, in device memory, where recorded steps read it
  int64_t next_step_ = 0;  // the host's copy of the step number in step_
  std::map<Shape, ShapeState> shapes_;
  std::set<int64_t> counts_;  // this rank's sample counts in all steps so far, with several ranks
};

}  // namespace dpbench
