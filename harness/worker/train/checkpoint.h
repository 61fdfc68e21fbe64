// Checkpoints of a training run, taken between two steps and stored in a safetensors file: model, optimizer state and
// progress. Sample order and dropout are functions of seed, epoch and step, so no generator state is stored.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/training.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// Settings that determine which samples each step uses and how. A resumed run must have the same values.
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

// Reads a checkpoint. Throws UsageError if the file is not a dpbench checkpoint, is damaged, or belongs to a run with
// other settings; the message names the difference.
Checkpoint load_checkpoint(const std::string& path, const RunIdentity& identity, int64_t steps_per_epoch);

}  // namespace dpbench
