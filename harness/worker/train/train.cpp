#include "harness/worker/train/train.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <stdexcept>

#include <ATen/ATen.h>

#include "harness/worker/rank/host_memory.h"
#include "harness/worker/steps/case_setup.h"
#include "harness/worker/steps/tensor_checks.h"
#include "harness/worker/train/epoch_checks.h"
#include "harness/worker/train/shapes.h"
#include "harness/worker/train/train_files.h"
#include "harness/worker/train/train_lines.h"
#include "harness/worker/train/train_output.h"
#include "harness/worker/train/train_source.h"
#include "harness/worker/train/train_summary.h"

namespace dpbench {
namespace {

// Returns a hint for an error message: "; use NAME=VALUE" for each parameter that turns off the strategy's recording
// and replaying of steps (e.g. in a CUDA graph).
std::string unrecorded_hint(const StrategyInfo& recorded) {
  std::string text;
  for (const auto& [name, value] : recorded.settings.unrecorded)
    text += "; use " + recorded.name + "." + name + "=" + value;
  return text;
}

class Trainer {
 public:
  Trainer(const TrainJob& job, const std::string& shared_dir, const SendEvent& send)
      : job_(job),
        plain_(workload_of(job.spec, shared_dir)),
        recording_(job.options.show_shapes ? shape_recording_workload(*plain_, shape_log_) : nullptr),
        workload_(recording_ ? *recording_ : *plain_),
        source_(workload_, job.spec, job.recipe, job.options.drop_last, job.group.rank()),
        output_(job.spec, job.group, send),
        files_(job_, workload_, source_),
        checks_(job_, workload_, output_) {
    job_.pulse.publish_actions(phases_);
  }

  TrainResult run() {
    validate();
    reset_peak_memory();
    const Setup setup = setup_of(job_.spec, job_.info, workload_, job_.group);
    if (job_.options.show_shapes && setup.mesh.axis("pp").size > 1)
      throw UsageError("--show-shapes: no rank of the axis pp runs the whole model");
    strategy_ = job_.info.make(setup);
    if (auto resumed = files_.resume(*strategy_)) {
      state_ = std::move(*resumed);
      losses_ = state_.running[static_cast<size_t>(job_.group.rank())];
    }
    prepare();
    output_.greet(workload_);
    while (state_.epoch < job_.epochs() && !over_) epoch();
    // A loss shows the parameters before its step's update, so gradients and parameters are checked after the last
    // step.
    require_finite(*strategy_, steps_done() - 1);
    strategy_->finish();
    if (job_.options.checkpoint_every > 0) files_.checkpoint(*strategy_, state_, losses_);
    files_.save(*strategy_);
    generate();
    TrainResult result = summary_of(job_, tally_, source_, state_, phases_, checks_, *strategy_);
    result.record.tokens_per_sample = workload_.tokens_per_sample();
    job_.group.barrier();  // wait until all ranks are done before any rank tears down the process group
    return result;
  }

 private:
  void validate() const {
    checks_.validate();
    if (job_.options.show_shapes &&
        promised(job_.info, Params(job_.info.params, job_.spec.params, job_.info.name)).recorded)
      throw UsageError("--show-shapes: " + job_.info.name + " replays recorded steps, which do not call the model" +
                       unrecorded_hint(job_.info));
    if (job_.options.generate > 0 && workload_.tokens_per_sample() == 0)
      throw UsageError("--generate: " + job_.spec.workload + " writes no text");
    files_.validate();
  }

  // Generates or unpacks the samples before timing starts. Every rank does so for its share of the data set.
  void prepare() {
    for (const at::Tensor& ids : at::arange(job_.group.rank(), workload_.samples(), job_.group.world()).split(1000)) {
      workload_.prepare(ids.contiguous());
      job_.pulse.beat();
    }
    job_.group.barrier();
    source_.prepare();
  }

  // With --generate, lets the trained model continue a text. Every rank computes the same text; rank 0 prints it.
  void generate() const {
    if (job_.options.generate == 0) return;
    const auto forward = [&](const Batch& batch) {
      job_.pulse.beat();
      return strategy_->forward(batch);
    };
    output_.line(workload_.continued(forward, job_.options.generate, job_.spec.seed));
  }

  int64_t steps_done() const { return state_.epoch * source_.steps_per_epoch() + state_.step; }

  void epoch() {
    source_.set_epoch(state_.epoch);
    bool due = false;
    while (state_.step < source_.steps_per_epoch()) {
      step();
      due = files_.due(steps_done());
      if (due && state_.step < source_.steps_per_epoch()) files_.checkpoint(*strategy_, state_, losses_);
    }
    finish_epoch();
    if (due && state_.epoch < job_.epochs() && !over_) files_.checkpoint(*strategy_, state_, losses_);
  }

  void step() {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    phases_.enter(Phase::data);
    const std::vector<Batch> micro = source_.at(state_.step);
    const StepResult result = strategy_->step(steps_done(), micro, phases_);
    const double loss = result.loss.item<double>();
    phases_.leave();
    if (!std::isfinite(loss))
      throw std::domain_error("the loss of step " + std::to_string(steps_done()) + " (step " +
                              std::to_string(state_.step) + " of epoch " + std::to_string(state_.epoch) + ") is " +
                              python_float(loss));
    losses_.push_back(loss);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const int64_t samples = source_.samples(state_.step);
    state_.seconds += seconds;
    tally_.add(loss, samples, seconds);
    ++state_.step;
    job_.pulse.step();
    if (job_.options.show_shapes) output_.shapes(shape_log_, micro, result.output, samples);
    if (output_.progress_due()) output_.progress(place());
  }

  TrainingPlace place() const {
    const int64_t left = job_.epochs() * source_.steps_per_epoch() - steps_done();
    return {.epoch = state_.epoch,
            .epochs = job_.epochs(),
            .step = state_.step,
            .steps = source_.steps_per_epoch(),
            .loss = tally_.last_loss,
            .samples_per_s = static_cast<double>(tally_.samples) / tally_.seconds,
            .left_s = static_cast<double>(left) * tally_.seconds / static_cast<double>(tally_.steps)};
  }

  // Computes the epoch's loss over all ranks. The sampler gives every rank the same number of samples per step, so the
  // mean over ranks is the mean over samples.
  void finish_epoch() {
    strategy_->buffers();  // waits for a step that ends in a thread
    const double world = job_.group.world(), steps = static_cast<double>(losses_.size());
    std::vector<double> own = losses_;
    own.push_back(std::accumulate(losses_.begin(), losses_.end(), 0.0));
    at::Tensor all = at::tensor(own, at::TensorOptions(at::kDouble));
    job_.group.sum(all);
    const double total = all[-1].item<double>();
    for (int64_t i = 0; i + 1 < all.numel(); ++i) state_.loss_curve.push_back(all[i].item<double>() / world);
    const EpochLoss loss{state_.epoch, job_.epochs(), source_.steps_per_epoch(), total, total / (steps * world)};
    state_.epoch_losses.push_back(output_.epoch(loss, job_.options.show_shapes));
    losses_.clear();
    ++state_.epoch;
    state_.step = 0;
    over_ = checks_.after_epoch(*strategy_, state_);
  }

  const TrainJob& job_;
  ShapeLog shape_log_;
  std::unique_ptr<Workload> plain_, recording_;
  const Workload& workload_;
  TrainSource source_;
  TrainOutput output_;
  TrainFiles files_;
  EpochChecks checks_;
  std::unique_ptr<Strategy> strategy_;
  Phases phases_{true};
  TrainingState state_;
  std::vector<double> losses_;  // this rank's losses in the current epoch
  TrainTally tally_;
  bool over_ = false;
};

}  // namespace

TrainResult train_case(const CaseSpec& spec, const TrainOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir, const SendEvent& send) {
  const TrainJob job{.spec = spec,
                     .options = options,
                     .group = group,
                     .pulse = pulse,
                     .info = strategy_registry().at(spec.strategy),
                     .own = own_parameters(spec),
                     .recipe = workload_registry().at(spec.workload).recipe};
  return Trainer(job, shared_dir, send).run();
}

}  // namespace dpbench
