// Steps that are recorded once per input shape and then replayed. Used by gpu.graph and ddp.graph.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategies/graphs/packed_rows.h"
#include "strategies/graphs/step_graph.h"
#include "strategies/parts/replica.h"

namespace dpbench {

// Returns a recorder for the setup's device. Throws UsageError, prefixed with `option`, if steps on this device or over
// this group cannot be recorded.
std::unique_ptr<StepRecorder> recorder_for(const Setup& setup, const std::string& option);

class RecordedSteps {
 public:
  // Runs one step on these samples. The samples and the step number (RecordedStep) are on the device. The body must not
  // read host state that changes between steps.
  using Body = std::function<StepResult(std::span<const Batch> rows, Phases& phases)>;

  // Construct it before all tensors that steps use, so that they are made on the recorder's stream. The first
  // `eager_steps` steps of a shape run eagerly.
  RecordedSteps(std::unique_ptr<StepRecorder> recorder, at::Device device, int64_t eager_steps);
  RecordedSteps(const RecordedSteps&) = delete;
  RecordedSteps& operator=(const RecordedSteps&) = delete;

  // replica: the replica that `body` trains; the same in every call.
  StepResult step(int64_t step, std::span<const Batch> micro, const Replica& replica, Phases& phases, const Body& body);

 private:
  // Steps with different shapes need separate recordings: steps of 30, 30, 30 and 10 samples need two.
  using Shape = std::vector<int64_t>;
  static Shape shape_of(std::span<const Batch> micro);

  // The buffers and graph of one shape. Replays write to the same addresses.
  struct ShapeState {
    std::optional<PackedRows> rows;
    int64_t eager = 0;  // eager steps so far
    StepResult result = {};
    std::vector<at::Tensor> gradients = {};
    std::unique_ptr<StepGraph> graph = {};
  };
  void run(ShapeState& state, const Replica& replica, Phases& phases, const Body& body);
  static void set_gradients(const ShapeState& state, const Replica& replica);

  std::unique_ptr<StepRecorder> recorder_;  // first, so that all else is made on its stream
  int64_t eager_steps_;
  at::Tensor step_;        // number of the next step, on the device
  int64_t next_step_ = 0;  // the value of step_
  std::map<Shape, ShapeState> shapes_;
};

}  // namespace dpbench
