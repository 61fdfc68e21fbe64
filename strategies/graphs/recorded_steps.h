// Steps that are recorded as a CUDA graph once per batch shape and then replayed. Used by the parameters gpu.graph and
// ddp.graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategies/api/parts/replica.h"
#include "strategies/graphs/packed_batches.h"
#include "strategies/graphs/step_graph.h"

namespace dpbench {

// Returns a recorder of CUDA graphs for the setup's device. Throws UsageError if steps on this device or with this
// process group cannot be recorded. option: the user's option for the message, such as "ddp.graph=on".
std::unique_ptr<StepRecorder> recorder_for(const Setup& setup, const std::string& option);

// Throws UsageError if the model has experts: a CUDA graph fixes the sizes of all tensors, but the number of tokens
// that an expert gets changes from step to step. owner: the strategy's name.
void require_recordable(const Model& model, const std::string& owner);

class RecordedSteps {
 public:
  // A function that runs the forward and backward passes of one step on samples in device memory. Its CUDA graph is
  // replayed in later steps. So it must not read host state that changes between steps, and it reads even the step
  // number from device memory (RecordedStep).
  using Passes = std::function<StepResult(std::span<const Batch> micro, Phases& phases)>;
  // A function that steps the parameters. It is normally recorded together with the passes, and called with step 0.
  // With a scheduled learning rate it is not recorded, because all replays would use the same rate; it is then called
  // after the passes of each step.
  using Update = std::function<void(int64_t step, Phases& phases)>;

  // Construct this object before all tensors that steps use, so that they are made on the recorder's CUDA stream.
  // eager_steps: number of steps of each batch shape that run normally before one is recorded.
  RecordedSteps(std::unique_ptr<StepRecorder> recorder, const Setup& setup, int64_t eager_steps);
  RecordedSteps(const RecordedSteps&) = delete;
  RecordedSteps& operator=(const RecordedSteps&) = delete;

  // Runs one step: without a CUDA graph, while recording one, or as a replay of one. replica: the replica that `passes`
  // trains, the same in every call. Throws if another rank may replay this step while this rank records it.
  StepResult step(int64_t step, std::span<const Batch> micro, const Replica& replica, Phases& phases,
                  const Passes& passes, const Update& update);

 private:
  // The shape of a step: the dtypes and sizes of all its micro-batches. Each shape needs its own CUDA graph: steps of
  // 30, 30, 30 and 10 samples need two.
  using Shape = std::vector<int64_t>;
  static Shape shape_of(std::span<const Batch> micro);

  // Device memory and CUDA graph for steps of one batch shape. Every replay reads and writes the same addresses.
  struct ShapeState {
    std::optional<PackedBatches> batches;
    int64_t eager = 0;  // number of steps of this shape that ran without a CUDA graph
    StepResult result = {};
    std::vector<at::Tensor> gradients = {};
    std::unique_ptr<StepGraph> graph = {};
  };
  void require_same_kind_on_all_ranks(int64_t step, std::span<const Batch> micro, const Shape& shape);
  void run(ShapeState& state, const Replica& replica, Phases& phases, const Passes& passes, const Update& update);
  static void set_gradients(const ShapeState& state, const Replica& replica);

  // The recorder of CUDA graphs is declared first, so that all other members are made on its CUDA stream.
  std::unique_ptr<StepRecorder> recorder_;
  std::string owner_;  // the strategy's name
  bool several_ranks_;
  int64_t eager_steps_;
  bool update_recorded_;
  at::Tensor step_;        // number of the next step, in device memory, where recorded steps read it
  int64_t next_step_ = 0;  // the number in step_, known to the host without a copy
  std::map<Shape, ShapeState> shapes_;
  std::map<int64_t, Shape> of_samples_;  // With several ranks: the batch shape of each number of samples so far.
};

}  // namespace dpbench
