// Reads and writes the files of a training run for --checkpoint, --resume and --save.
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

  // Throws UsageError if checkpoints are requested but the strategy does not support them, or if a file cannot be
  // written.
  void validate() const;
  // Loads the --resume file into the strategy and returns the run's progress, with one list of losses per rank of this
  // run. Returns nullopt without --resume. Every rank must call it.
  std::optional<TrainingState> resume(Strategy& strategy) const;
  // True if --checkpoint-every asks for a checkpoint after this many steps of the run.
  bool due(int64_t steps_done) const;
  // Writes the --checkpoint file on rank 0, or this rank's part of a --checkpoint directory. Every rank must call it.
  // losses: the losses of this rank's steps in the current epoch.
  void checkpoint(Strategy& strategy, const TrainingState& state, const std::vector<double>& losses) const;
  // Writes the --save file: parameters and buffers under their own names, which Python's load_state_dict accepts. Every
  // rank must call it.
  void save(Strategy& strategy) const;

 private:
  RunIdentity identity() const;
  void discard_one_step(Strategy& strategy) const;
  void write_stored_parts(Strategy& strategy, const TrainingState& state) const;

  const TrainJob& job_;
  const Workload& workload_;
  const TrainSource& source_;
};

}  // namespace dpbench
