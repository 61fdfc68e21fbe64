#include "harness/worker/train/train_summary.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include <ATen/Parallel.h>

#include "harness/worker/rank/host_memory.h"
#include "harness/worker/steps/tensor_checks.h"

namespace dpbench {
namespace {

RankRecord rank_record(const TrainJob& job, const TrainTally& tally, const Phases& phases, Strategy& strategy) {
  RankRecord record;
  const auto steps = static_cast<double>(tally.steps);
  record.rank = job.group.rank();
  record.threads = at::get_num_threads();
  record.steps_per_sample = std::max<int64_t>(tally.steps, 1);
  record.rows_per_step = tally.steps > 0 ? static_cast<double>(tally.samples) / steps : 0;
  for (size_t i = 0; i < phase_names.size(); ++i)
    if (const auto ns = phases.total_ns()[i]; ns != 0)
      record.phases_ns[std::string(phase_names[i])] = static_cast<double>(ns) / steps;
  record_peaks(record);
  record.first_loss = tally.first_loss;
  record.last_loss = tally.last_loss;
  record_parameters(strategy.parameters(), job.own, record);
  return record;
}

std::optional<double> data_fraction(const Phases& phases) {
  const auto& ns = phases.total_ns();
  const auto total = static_cast<double>(std::accumulate(ns.begin(), ns.end(), int64_t{0}));
  return total > 0 ? std::optional(static_cast<double>(ns[static_cast<size_t>(Phase::data)]) / total) : std::nullopt;
}

}  // namespace

void TrainTally::add(double loss, int64_t step_samples, double step_seconds) {
  if (steps == 0) first_loss = loss;
  last_loss = loss;
  ++steps;
  samples += step_samples;
  seconds += step_seconds;
}

TrainResult summary_of(const TrainJob& job, const TrainTally& tally, const TrainSource& source,
                       const TrainingState& state, const Phases& phases, const EpochChecks& checks,
                       Strategy& strategy) {
  const int64_t steps = state.epoch * source.steps_per_epoch() + state.step;
  TrainResult result;
  result.record = rank_record(job, tally, phases, strategy);
  if (job.is_rank0()) result.checks = checks.rows(state);
  result.training = {.epochs = job.epochs(),
                     .steps_per_epoch = source.steps_per_epoch(),
                     .steps = steps,
                     .resumed_at = steps - tally.steps,
                     .seconds = state.seconds,
                     .samples_per_s = tally.seconds > 0
                                          ? std::optional(static_cast<double>(tally.samples) / tally.seconds)
                                          : std::nullopt,
                     .data_fraction = data_fraction(phases),
                     .epoch_losses = state.epoch_losses,
                     .loss_curve = state.loss_curve,
                     .accuracy = state.accuracy,
                     .target_accuracy = job.options.target_accuracy,
                     .time_to_accuracy_s = checks.time_to_accuracy_s()};
  return result;
}

}  // namespace dpbench
