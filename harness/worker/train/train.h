// A complete training run on one rank, equivalent to the programs in the framework tutorials.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/report/record/training.h"
#include "harness/worker/rank/group.h"
#include "harness/worker/rank/pulse.h"

namespace dpbench {

struct TrainResult {
  RankRecord record;
  std::vector<CheckRow> checks;  // empty except on rank 0
  TrainingRecord training;       // the same on every rank, except for times
};

// Sends rank 0's events during the run: {"event":"line","text":..} for program output, {"event":"progress",..}.
using SendEvent = std::function<void(const Json& event)>;

// Throws UsageError for invalid options before the first step, std::domain_error for a non-finite loss.
TrainResult train_case(const CaseSpec& spec, const TrainOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir, const SendEvent& send);

}  // namespace dpbench
