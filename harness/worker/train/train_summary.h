// Adds up the measurements of a training run and makes the run's record for the report.
#pragma once

#include "harness/worker/train/checkpoint.h"
#include "harness/worker/train/epoch_checks.h"
#include "harness/worker/train/train.h"
#include "harness/worker/train/train_source.h"

namespace dpbench {

// Totals over the steps that this process has run; steps before a --resume are not included.
struct TrainTally {
  int64_t steps = 0, samples = 0;
  double seconds = 0;
  double first_loss = 0, last_loss = 0;

  void add(double loss, int64_t step_samples, double step_seconds);
};

TrainResult summary_of(const TrainJob& job, const TrainTally& tally, const TrainSource& source,
                       const TrainingState& state, const Phases& phases, const EpochChecks& checks, Strategy& strategy);

}  // namespace dpbench
