// Predicts the memory of a rank and the time of a step under a layout.
#pragma once

#include <vector>

#include "harness/forecast/network.h"
#include "harness/forecast/plan/layout.h"
#include "harness/forecast/plan/speed.h"

namespace dpbench::forecast {

struct Machine {
  Speed speed = {};
  Network network = {};
  int cores = 0;    // that all ranks share; 0: each device is its own
  int threads = 1;  // of a rank
  bool overlap_measured = false;
  double overlap = 1;  // share of a collective beside computations that they hide
};

// Memory at the peak of a step, on the rank with the highest peak, in bytes.
struct Memory {
  double parameters = 0, gradients = 0, state = 0, activations = 0;
  double buffers = 0;  // gathered parameters and gradients on their way
  double total() const { return parameters + gradients + state + activations + buffers; }
};

// Parts of a step, which add up to it, on the rank that computes longest. Communication that computation hides is no
// part of a step.
struct Time {
  double computing_s = 0, optimizer_s = 0;
  double tensor_s = 0, context_s = 0, data_s = 0;  // collectives over tp, over cp, and over dp and shard
  double bubble_s = 0;                             // idle time of a pipeline, with its messages
  double step_s() const { return computing_s + optimizer_s + tensor_s + context_s + data_s + bubble_s; }
};

struct Prediction {
  Layout layout;
  Memory memory = {};
  Time time = {};
};

Memory memory_of(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout);
Time time_of(const gpt::Shape& shape, gpt::Precision precision, const Layout& layout, const Machine& machine);

// The blocks of one stage of a pipeline.
struct StageBlocks {
  bool embed = false, norm = false, head = false;
  int64_t layers = 0;
};
// Returns the blocks of all stages; without the axis pp there is one stage.
std::vector<StageBlocks> stages_of(const gpt::Shape& shape, const Layout& layout);

// Returns the schedule of a layout with the axis pp.
pipeline::Schedule schedule_of(const Layout& layout);

}  // namespace dpbench::forecast
