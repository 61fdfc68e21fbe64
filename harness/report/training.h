// A training run: what is asked of the workers, and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/protocol.h"

namespace dpbench {

struct TrainOptions {
  std::optional<int64_t> epochs;  // absent: as many as the workload's document has
  bool drop_last = false, show_shapes = false, evaluate = false;
  std::optional<double> target_accuracy;  // part of the test rows; training ends once it is reached
  std::string save, resume, checkpoint;   // files; empty: none
  int64_t checkpoint_every = 0;           // steps; 0: never
};

struct TrainingRecord {
  int64_t epochs = 0, steps_per_epoch = 0;  // as planned
  int64_t steps = 0, resumed_at = 0;        // the last step's number plus one; the first one's of this run
  double seconds = 0;                       // in steps and their data, of all runs that this one went on from
  std::optional<double> samples_per_s = {}, data_fraction = {};         // of this run; null when it had no step
  std::vector<double> epoch_losses = {};                                // as the program prints them
  std::vector<double> loss_curve = {};                                  // of every step, the mean over ranks
  std::vector<double> accuracy = {};                                    // after every epoch, when evaluated
  std::optional<double> target_accuracy = {}, time_to_accuracy_s = {};  // null: not asked for; not reached
};

Json to_json(const TrainOptions& options);
TrainOptions train_options_from_json(const Json& json);
Json to_json(const TrainingRecord& record);
TrainingRecord training_record_from_json(const Json& json);

}  // namespace dpbench
