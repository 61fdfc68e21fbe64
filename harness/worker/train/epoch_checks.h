// Checks after every epoch of a training run that all ranks hold the same model, and, if requested, measures its
// accuracy on the test samples.
#pragma once

#include <optional>
#include <vector>

#include "harness/worker/train/checkpoint.h"
#include "harness/worker/train/train_job.h"
#include "harness/worker/train/train_output.h"

namespace dpbench {

struct Accuracy {
  int64_t right = 0, classes = 0;  // right: correct predictions; classes: all predictions, one per sample or token
  double share() const { return static_cast<double>(right) / static_cast<double>(classes); }
};

// Returns the model's accuracy on the test samples, each counted once. Every rank must call it. All ranks evaluate with
// rank 0's buffers.
Accuracy evaluate(Strategy& strategy, const Workload& workload, const Group& group, Pulse& pulse);

class EpochChecks {
 public:
  EpochChecks(const TrainJob& job, const Workload& workload, const TrainOutput& output)
      : job_(job), workload_(workload), output_(output) {}

  // Throws UsageError if accuracy is requested but the workload has no test samples or no classes.
  void validate() const;
  // Runs the checks after an epoch; every rank must call it. Returns true if training must end: ranks differ, or the
  // target accuracy is reached.
  bool after_epoch(Strategy& strategy, TrainingState& state);
  std::vector<CheckRow> rows(const TrainingState& state) const;
  std::optional<double> time_to_accuracy_s() const { return time_to_accuracy_s_; }

 private:
  bool ranks_differ(Strategy& strategy, int64_t epoch);
  bool reached_target(Strategy& strategy, TrainingState& state);

  const TrainJob& job_;
  const Workload& workload_;
  const TrainOutput& output_;
  std::optional<CheckRow> rank_mismatch_;
  std::optional<double> time_to_accuracy_s_;
};

}  // namespace dpbench
