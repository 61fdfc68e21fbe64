#include "harness/report/training.h"

#include "harness/report/fields.h"

namespace dpbench {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

Json to_json(const TrainOptions& options) {
  return {{"epochs", or_null(options.epochs)},
          {"drop_last", options.drop_last},
          {"show_shapes", options.show_shapes},
          {"evaluate", options.evaluate},
          {"target_accuracy", or_null(options.target_accuracy)},
          {"save", text_or_null(options.save)},
          {"resume", text_or_null(options.resume)},
          {"checkpoint", text_or_null(options.checkpoint)},
          {"checkpoint_every", options.checkpoint_every}};
}

TrainOptions train_options_from_json(const Json& json) {
  const Fields fields(json, "train");
  TrainOptions options;
  options.epochs = fields.maybe<int64_t>("epochs");
  options.drop_last = fields.get<bool>("drop_last");
  options.show_shapes = fields.get<bool>("show_shapes");
  options.evaluate = fields.get<bool>("evaluate");
  options.target_accuracy = fields.maybe<double>("target_accuracy");
  options.save = fields.get_or<std::string>("save", "");
  options.resume = fields.get_or<std::string>("resume", "");
  options.checkpoint = fields.get_or<std::string>("checkpoint", "");
  options.checkpoint_every = fields.get<int64_t>("checkpoint_every");
  return options;
}

Json to_json(const TrainingRecord& record) {
  return {{"epochs", record.epochs},
          {"steps_per_epoch", record.steps_per_epoch},
          {"steps", record.steps},
          {"resumed_at", record.resumed_at},
          {"seconds", record.seconds},
          {"samples_per_s", or_null(record.samples_per_s)},
          {"data_fraction", or_null(record.data_fraction)},
          {"epoch_losses", record.epoch_losses},
          {"loss_curve", record.loss_curve},
          {"accuracy", record.accuracy},
          {"target_accuracy", or_null(record.target_accuracy)},
          {"time_to_accuracy_s", or_null(record.time_to_accuracy_s)}};
}

TrainingRecord training_record_from_json(const Json& json) {
  const Fields fields(json, "training");
  TrainingRecord record;
  record.epochs = fields.get<int64_t>("epochs");
  record.steps_per_epoch = fields.get<int64_t>("steps_per_epoch");
  record.steps = fields.get<int64_t>("steps");
  record.resumed_at = fields.get<int64_t>("resumed_at");
  record.seconds = fields.get<double>("seconds");
  record.samples_per_s = fields.maybe<double>("samples_per_s");
  record.data_fraction = fields.maybe<double>("data_fraction");
  record.epoch_losses = list_of<double>(fields, "epoch_losses");
  record.loss_curve = list_of<double>(fields, "loss_curve");
  record.accuracy = list_of<double>(fields, "accuracy");
  record.target_accuracy = fields.maybe<double>("target_accuracy");
  record.time_to_accuracy_s = fields.maybe<double>("time_to_accuracy_s");
  return record;
}

}  // namespace dpbench
