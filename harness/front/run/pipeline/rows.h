// The rows of a trace (dpbench --trace) that show pipelines: each action as it ran, and as it was planned.
#pragma once

#include <string>
#include <vector>

#include "harness/front/run/pipeline/ran_steps.h"
#include "harness/report/record/protocol.h"

namespace dpbench {

// Adds rows to each rank of a merged trace: the computations and transfers that the rank recorded as spans (see
// pipeline::trace_name()), and the computations as planned. In each step, the planned computations start together with
// the first recorded computation. pipelines: the ranks of each pipeline, in the order of the axis pp. A pipeline
// without recorded spans gets no rows.
void add_pipeline_rows(Json& trace, const std::vector<std::vector<int>>& pipelines);

// A pipeline in the rows of a trace. Times are milliseconds.
struct TracedPipeline {
  std::vector<int> ranks;
  std::vector<RanStep> steps;
};

// Reads the pipelines from the rows that add_pipeline_rows() added to a trace; empty if there are none. `name` names
// the trace in messages.
std::vector<TracedPipeline> traced_pipelines(const Json& trace, const std::string& name);

}  // namespace dpbench
