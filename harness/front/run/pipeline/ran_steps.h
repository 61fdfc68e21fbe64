// Measures a pipeline: its steps as they ran, and a simulation of the same schedule with the measured times.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "strategies/schedule/families/families.h"
#include "strategies/schedule/simulate.h"

namespace dpbench {

// The actions of one step as they ran, by rank, in the order of their starts. A computation excludes the wait for its
// input. A send lasts as long as its call. A receive lasts from its call until the computation that needs the tensor
// has it.
using RanStep = std::vector<std::vector<pipeline::Timed>>;

std::vector<std::vector<pipeline::Action>> actions_in(const RanStep& step);

// Returns the start of a step's first computation.
double start_of(const RanStep& step);

struct MeasuredPipeline {
  pipeline::Schedule schedule = {};          // the pipeline's actions, in the order in which they ran
  const pipeline::Family* family = nullptr;  // built-in schedule with the same computations; null if there is none
  size_t steps = 0;                          // number of steps that ran this pipeline schedule
  // Measured times, as medians over the steps of this schedule. stage_times: the computations of each stage. links: the
  // transfers between two ranks for which the receiving rank waited. forward, input_gradient and weight_gradient are
  // means over stages and micro-batches.
  pipeline::Costs costs = {};
  pipeline::Simulation planned = {};  // the schedule simulated with the measured costs
  pipeline::Simulation ran = {};      // the step of median length, from its first computation on
};

// Measures the steps that have the same actions as the first step. Throws UsageError if pipeline::verify() finds a
// fault in these actions; the message starts with `name`.
MeasuredPipeline measure_pipeline(const std::vector<RanStep>& steps, const std::string& name);

}  // namespace dpbench
