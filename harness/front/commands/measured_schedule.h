// Shows the pipelines of a traced run, for `dpbench schedule --measured`: bubbles and step time by formula, simulated
// and measured; and two pictures of the schedule, as planned and as it ran.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/front/run/pipeline/rows.h"

namespace dpbench {

// A pipeline that a trace shows. trace: name of the trace file. ranks: the pipeline's ranks, as numbered in the run.
// untraced_ms: median time of the run's timed steps, which ran without the profiler; unset for a trace without its run.
struct ShownPipeline {
  std::string trace;
  std::vector<int> ranks;
  MeasuredPipeline measured;
  std::optional<double> untraced_ms = {};
};

// Returns the pipelines of a trace file, or of all traces of a run. Throws UsageError if there are none.
std::vector<ShownPipeline> read_pipelines(const std::string& trace_or_run);

std::string measured_svg(const ShownPipeline& shown);
std::string measured_text(const ShownPipeline& shown, bool colour, size_t width);

}  // namespace dpbench
