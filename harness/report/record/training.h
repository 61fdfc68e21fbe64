// A training run: what is asked of the workers, and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/record/protocol.h"

namespace dpbench {

struct TrainOptions {
  std::optional<int64_t> epochs{};
  bool drop_last = false, show_shapes = false, evaluate = false;
  std::optional<double> target_accuracy{};
  std::string save{}, resume{}, checkpoint{};
  int64_t checkpoint_every = 0;
};

template <>
struct Table<TrainOptions> {
  using T = TrainOptions;
  static constexpr const char* name = "train_options";
  static constexpr std::tuple fields{
      Field{"epochs", "epochs", &T::epochs, "null: as many as the workload's document has"},
      Field{"drop_last", "-", &T::drop_last, "leave out a last batch that is not full"},
      Field{"show_shapes", "-", &T::show_shapes, "print shapes"},
      Field{"evaluate", "-", &T::evaluate, "accuracy on the test samples after every epoch"},
      Field{"target_accuracy", "share", &T::target_accuracy, "training ends once it is reached"},
      text_or_null(Field{"save", "-", &T::save, "file for the trained model"}),
      text_or_null(Field{"resume", "-", &T::resume, "checkpoint to go on from"}),
      text_or_null(Field{"checkpoint", "-", &T::checkpoint, "file for checkpoints"}),
      Field{"checkpoint_every", "steps", &T::checkpoint_every, "0: never"}};
};

struct TrainingRecord {
  int64_t epochs = 0, steps_per_epoch = 0, steps = 0, resumed_at = 0;
  double seconds = 0;
  std::optional<double> samples_per_s{}, data_fraction{};
  std::vector<double> epoch_losses{}, loss_curve{}, accuracy{};
  std::optional<double> target_accuracy{}, time_to_accuracy_s{};
};

template <>
struct Table<TrainingRecord> {
  using T = TrainingRecord;
  static constexpr const char* name = "training";
  static constexpr std::tuple fields{
      Field{"epochs", "epochs", &T::epochs, "as planned", range::positive},
      Field{"steps_per_epoch", "steps", &T::steps_per_epoch, "as planned", range::positive},
      Field{"steps", "steps", &T::steps, "taken, those before a resumption too", range::not_negative},
      Field{"resumed_at", "step", &T::resumed_at, "the number of this run's first step", range::not_negative},
      Field{"seconds", "s", &T::seconds, "in steps and their data, before a resumption too", range::not_negative},
      Field{"samples_per_s", "samples / s", &T::samples_per_s, "of this run; null when it had no step",
            range::above_zero},
      Field{"data_fraction", "share", &T::data_fraction, "of this run's time spent on fetching data", range::share},
      Field{"epoch_losses", "loss", &T::epoch_losses, "as printed: sums over ranks, or means"},
      Field{"loss_curve", "loss", &T::loss_curve, "of every step, the mean over ranks"},
      Field{"accuracy", "share", &T::accuracy, "after every epoch, when evaluated", range::share},
      Field{"target_accuracy", "share", &T::target_accuracy, "null: not asked for", range::above_zero},
      Field{"time_to_accuracy_s", "s", &T::time_to_accuracy_s, "of training; null: not reached"}};
};

}  // namespace dpbench
