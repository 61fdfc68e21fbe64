// The checks after every epoch: all ranks hold the same model, and its accuracy on the test rows.
#pragma once

#include <optional>
#include <vector>

#include "harness/worker/train/checkpoint.h"
#include "harness/worker/train/train_job.h"
#include "harness/worker/train/train_voice.h"

namespace dpbench {

struct Accuracy {
  int64_t right = 0, rows = 0;
  double share() const { return static_cast<double>(right) / static_cast<double>(rows); }
};

// Collective. Counts each test row once however many ranks share them. Every rank evaluates with rank 0's buffers.
Accuracy evaluate(Strategy& strategy, const Workload& workload, const Group& group, Pulse& pulse);

class EpochChecks {
 public:
  EpochChecks(const TrainJob& job, const Workload& workload, const TrainVoice& voice)
      : job_(job), workload_(workload), voice_(voice) {}

  // Throws UsageError when accuracy is asked for and the workload has no test rows or no classes.
  void refuse_early() const;
  // Collective, once an epoch. True ends training: ranks differ, or the accuracy asked for is reached.
  bool after_epoch(Strategy& strategy, TrainingState& state);
  std::vector<CheckRow> rows(const TrainingState& state) const;
  std::optional<double> time_to_accuracy_s() const { return time_to_accuracy_s_; }

 private:
  bool ranks_differ(Strategy& strategy, int64_t epoch);
  bool reached_target(Strategy& strategy, TrainingState& state);

  const TrainJob& job_;
  const Workload& workload_;
  const TrainVoice& voice_;
  std::optional<CheckRow> unequal_;
  std::optional<double> time_to_accuracy_s_;
};

}  // namespace dpbench
