// Predicts the memory of a rank and the time of a step under a layout.
#pragma once

#include <optional>
#include <vector>

#include "harness/forecast/network.h"
#include "harness/forecast/plan/layout.h"
#include "harness/forecast/plan/speed.h"

namespace dpbench::forecast {

struct Machine {
  Speed speed = {};
  Network network = {};
  int cores = 0;    // cores that all ranks share; 0: ranks share no cores
  int threads = 1;  // threads per rank
  bool overlap_measured = false;
  double overlap = 1;  // share of an overlapped collective's time that computation may hide
};

// Memory at the peak of a step, on the rank with the highest peak, in bytes.
struct Memory {
  double parameters = 0, gradients = 0, state = 0, activations = 0;
  // Memory of gathered parameters, of gradients during their reduction, and of the copies of its shards of parameters
  // and gradients that a rank of zero1 makes for the update.
  double buffers = 0;
  double total() const { return parameters + gradients + state + activations + buffers; }
};

// Times of the parts of a step on the busiest rank; they add up to the step time. Communication that computation hides
// is not counted.
struct Time {
  double computing_s = 0, optimizer_s = 0;
  // Time of collectives by mesh axis. tensor_s: axis tp. context_s: axis cp. data_s: axes dp and shard.
  double tensor_s = 0, context_s = 0, data_s = 0;
  // Time for which a pipeline's rank is idle or waits for messages from other stages, and the time to exchange a tied
  // embedding's gradients.
  double bubble_s = 0;
  double step_s() const { return computing_s + optimizer_s + tensor_s + context_s + data_s + bubble_s; }
};

struct Prediction {
  Layout layout;
  Memory memory = {};
  Time time = {};
};

Memory memory_of(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout);
Time time_of(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout, const Machine& machine);
// Does the same, but may return nullopt if the step takes longer than most_s. A pipeline that is certain to take longer
// is not simulated.
std::optional<Time> time_within(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout,
                                const Machine& machine, double most_s);

// The model blocks of one pipeline stage.
struct StageBlocks {
  bool embed = false, norm = false, head = false;
  int64_t layers = 0;
};
// Returns the model blocks of all pipeline stages; without the axis pp, one stage holds the whole model.
std::vector<StageBlocks> stages_of(const gpt::Shape& shape, const Layout& layout);

// Returns the schedule of a layout with the axis pp, for this number of micro-batches.
pipeline::Schedule schedule_of(const Layout& layout, int64_t micro_batches);

}  // namespace dpbench::forecast
