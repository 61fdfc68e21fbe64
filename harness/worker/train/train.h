// Runs a complete training run on one rank, equivalent to the PyTorch and Keras tutorial programs that some workloads
// reproduce.
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
  std::vector<CheckRow> checks;  // results of the checks after each epoch; empty except on rank 0
  TrainingRecord training;       // results of the training; equal on every rank, except for times
};

// Sends an event of rank 0 to the front (the dpbench process) during the run: {"event":"line","text":..} for program
// output, {"event":"progress",..} for progress.
using SendEvent = std::function<void(const Json& event)>;

// Trains the case's model. Throws UsageError for invalid options, before the first step, and std::domain_error for a
// non-finite loss.
TrainResult train_case(const CaseSpec& spec, const TrainOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir, const SendEvent& send);

}  // namespace dpbench
