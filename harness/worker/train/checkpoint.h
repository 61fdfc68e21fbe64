// A training run stopped between two steps, in a safetensors file: the model, the optimizer, and where the run stands.
// Order and dropout are functions of seed, epoch and step, so there is no generator whose state would have to be kept.
#pragma once

#include <string>
#include <vector>

#include "harness/report/record/training.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// What decides which rows a step has and what is done with them: the same in a run that goes on.
using RunIdentity = std::vector<std::pair<std::string, std::string>>;

struct TrainingState {
  int64_t epoch = 0, step = 0;                      // the next step: of this epoch, in it
  double seconds = 0;                               // in steps and their data so far
  std::vector<std::vector<double>> running = {{}};  // of this epoch, by rank: the losses of its steps
  std::vector<double> epoch_losses = {}, loss_curve = {}, accuracy = {};
};

struct Checkpoint {
  Snapshot snapshot;
  TrainingState state;
};

// Throws FileError when it cannot be written; what stood there before is untouched.
void save_checkpoint(const std::string& path, const RunIdentity& identity, const Checkpoint& checkpoint);

// Throws UsageError for a file that is none of ours, is damaged, or belongs to another run (naming the difference).
Checkpoint load_checkpoint(const std::string& path, const RunIdentity& identity, int64_t steps_per_epoch);

}  // namespace dpbench
