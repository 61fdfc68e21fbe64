// A training run: the options sent to the workers, and its results.
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
  int64_t checkpoint_every = 0, generate = 0;
};

template <>
struct Table<TrainOptions> {
  using T = TrainOptions;
  static constexpr const char* name = "train_options";
  static constexpr std::tuple fields{
      Field{"epochs", "epochs", &T::epochs, "number of epochs; null: the workload's default"},
      Field{"drop_last", "-", &T::drop_last, "drop the last batch of an epoch if it is not full"},
      Field{"show_shapes", "-", &T::show_shapes, "print the shapes of the tensors"},
      Field{"evaluate", "-", &T::evaluate, "compute the accuracy on the test samples after every epoch"},
      Field{"target_accuracy", "share", &T::target_accuracy, "accuracy at which training ends"},
      text_or_null(Field{"save", "-", &T::save, "file for the trained model"}),
      text_or_null(Field{"resume", "-", &T::resume, "checkpoint to resume from"}),
      text_or_null(Field{"checkpoint", "-", &T::checkpoint, "file for checkpoints"}),
      Field{"checkpoint_every", "steps", &T::checkpoint_every, "interval between checkpoints; 0: never"},
      later(Field{"generate", "tokens", &T::generate, "length of the text that the trained model writes; 0: none"})};
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
      Field{"epochs", "epochs", &T::epochs, "planned number of epochs", range::positive},
      Field{"steps_per_epoch", "steps", &T::steps_per_epoch, "planned steps per epoch", range::positive},
      Field{"steps", "steps", &T::steps, "steps taken, including those before a resume", range::not_negative},
      Field{"resumed_at", "step", &T::resumed_at, "number of this run's first step", range::not_negative},
      Field{"seconds", "s", &T::seconds, "time spent in steps and on their data, including the time before a resume",
            range::not_negative},
      Field{"samples_per_s", "samples / s", &T::samples_per_s, "throughput of this run; null if it had no step",
            range::above_zero},
      Field{"data_fraction", "share", &T::data_fraction, "fraction of this run's time spent fetching data",
            range::share},
      Field{"epoch_losses", "loss", &T::epoch_losses, "loss of each epoch as printed: a sum or a mean over ranks"},
      Field{"loss_curve", "loss", &T::loss_curve, "loss of each step, mean over ranks"},
      Field{"accuracy", "share", &T::accuracy, "accuracy on the test samples after each epoch, if evaluated",
            range::share},
      Field{"target_accuracy", "share", &T::target_accuracy, "accuracy at which training ends; null: none set",
            range::above_zero},
      Field{"time_to_accuracy_s", "s", &T::time_to_accuracy_s,
            "training time until target_accuracy was reached; null: not reached"}};
};

}  // namespace dpbench
