// Steps that are recorded once for each shape of their rows and replayed from then on: what gpu.graph and ddp.graph
// share.
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

// Throws UsageError, beginning with what asked for it, where steps on this device or over this group cannot be
// recorded.
std::unique_ptr<StepRecorder> recorder_for(const Setup& setup, const std::string& asked);

class RecordedSteps {
 public:
  // A step with these rows, which lie on the device as its number (RecordedStep) does. Reads nothing of the host that
  // changes from step to step.
  using Body = std::function<StepResult(std::span<const Batch> rows, Phases& phases)>;

  // To be made before all else that steps work on, which is then made on the recorder's stream. The first `eager_steps`
  // of a shape run as they are.
  RecordedSteps(std::unique_ptr<StepRecorder> recorder, at::Device device, int64_t eager_steps);
  RecordedSteps(const RecordedSteps&) = delete;
  RecordedSteps& operator=(const RecordedSteps&) = delete;

  // replica: the one that body trains, the same in every call.
  StepResult step(int64_t step, std::span<const Batch> micro, const Replica& replica, Phases& phases, const Body& body);

 private:
  // What tells steps apart that need a recording each: 30, 30, 30, 10 rows are two.
  using Shape = std::vector<int64_t>;
  static Shape shape_of(std::span<const Batch> micro);

  // Steps of one shape. What a recording writes stays where it is from replay to replay.
  struct Kind {
    std::optional<PackedRows> rows;
    int64_t eager = 0;  // were run as they are
    StepResult result = {};
    std::vector<at::Tensor> gradients = {};
    std::unique_ptr<StepGraph> graph = {};
  };
  void take(Kind& kind, const Replica& replica, Phases& phases, const Body& body);
  static void show_gradients(const Kind& kind, const Replica& replica);

  std::unique_ptr<StepRecorder> recorder_;  // first: all else is made on its stream
  int64_t eager_steps_;
  at::Tensor step_;        // the number of the step to take, on the device
  int64_t next_step_ = 0;  // what it holds
  std::map<Shape, Kind> kinds_;
};

}  // namespace dpbench
