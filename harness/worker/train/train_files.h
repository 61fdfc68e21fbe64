// The files of a training run: --checkpoint, --resume and --save.
#pragma once

#include <optional>
#include <vector>

#include "harness/worker/train/checkpoint.h"
#include "harness/worker/train/train_job.h"
#include "harness/worker/train/train_source.h"

namespace dpbench {

class TrainFiles {
 public:
  TrainFiles(const TrainJob& job, const Workload& workload, const TrainSource& source)
      : job_(job), workload_(workload), source_(source) {}

  // Throws UsageError if the strategy does not support checkpoints or a file cannot be written.
  void validate() const;
  // Collective. Loads the --resume file into the strategy; returns nullopt without --resume. The returned `running` has
  // one entry per rank.
  std::optional<TrainingState> resume(Strategy& strategy) const;
  // True if --checkpoint-every asks for a checkpoint after this many steps.
  bool due(int64_t steps_done) const;
  // Collective. losses: the losses of this rank's steps in the current epoch.
  void checkpoint(Strategy& strategy, const TrainingState& state, const std::vector<double>& losses) const;
  // Collective. Writes parameters and buffers under their own names, which Python's load_state_dict accepts.
  void save(Strategy& strategy) const;

 private:
  RunIdentity identity() const;
  void discard_one_step(Strategy& strategy) const;

  const TrainJob& job_;
  const Workload& workload_;
  const TrainSource& source_;
};

}  // namespace dpbench
