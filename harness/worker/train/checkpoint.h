// Checkpoints of a training run, taken between two steps: model, optimizer state and progress, in a safetensors file or
// in a directory with one file per rank. Sample order and dropout are functions of seed, epoch and step, so no
// generator state is stored.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/training.h"
#include "strategies/api/strategy.h"
#include "workloads/data/safetensors_parts.h"

namespace dpbench {

// Settings that determine the samples of each step and the computation on them. A resumed run must have equal values.
using RunIdentity = std::vector<std::pair<std::string, std::string>>;

struct TrainingState {
  int64_t epoch = 0, step = 0;                      // next step to run: its epoch and its index in the epoch
  double seconds = 0;                               // time spent in steps so far, data loading included
  std::vector<std::vector<double>> running = {{}};  // losses of the current epoch's steps, one list per rank
  std::vector<double> epoch_losses = {}, loss_curve = {}, accuracy = {};
};

struct Checkpoint {
  Snapshot snapshot;
  TrainingState state;
};

// Writes a checkpoint. Throws FileError if the file cannot be written; an existing file is then left unchanged.
void save_checkpoint(const std::string& path, const RunIdentity& identity, const Checkpoint& checkpoint);

// Writes one rank's part of a checkpoint to a directory. number: the rank. stored: the parts of the model and of the
// optimizer state that this rank holds. Rank 0 also writes `state`. Throws FileError if a file cannot be written.
void save_stored_parts(const std::string& directory, const Save& save, int number, const std::vector<StatePart>& stored,
                       const TrainingState& state);
// Commits a checkpoint after all ranks have written their parts. After this call the directory holds only this
// checkpoint.
void commit_checkpoint(const std::string& directory, const Save& save, const RunIdentity& identity,
                       const TrainingState& state);

// Reads a checkpoint from a file or directory. Throws UsageError if it is not a dpbench checkpoint, is damaged, or
// belongs to a run with other settings; the message names the difference.
Checkpoint load_checkpoint(const std::string& path, const RunIdentity& identity, int64_t steps_per_epoch);

}  // namespace dpbench
