// Pipeline schedules as CSV, in the letters of torch.distributed.pipelining: a line for each rank, a cell for each
// action. Empty cells are idle time and are skipped. "(0F3;3B1)OVERLAP_F_B" is a forward pass that runs together with a
// backward pass.
#pragma once

#include <string>

#include "strategies/schedule/schedule.h"

namespace dpbench::pipeline {

// Parses a pipeline schedule from CSV text; messages call it `name`. A stage lies on the rank that has most of its
// actions. Throws UsageError for a text that is not a schedule.
Schedule read_csv(const std::string& text, const std::string& name);
// Reads a pipeline schedule from a CSV file; messages call it `name`. Throws UsageError if the file cannot be read or
// has more than 64 MiB.
Schedule read_csv_file(const std::string& path, const std::string& name);

// Throws UsageError for a schedule with two pipelines, which the CSV format cannot express.
std::string write_csv(const Schedule& schedule);

}  // namespace dpbench::pipeline
