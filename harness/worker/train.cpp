#include "harness/worker/train.h"

#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "harness/worker/checkpoint.h"
#include "harness/worker/evaluate.h"
#include "harness/worker/fingerprint.h"
#include "harness/worker/finite.h"
#include "harness/worker/memory.h"
#include "harness/worker/run_case.h"
#include "harness/worker/train_source.h"
#include "harness/worker/train_voice.h"
#include "workloads/data/tensor_file.h"

namespace dpbench {
namespace {

using TrainClock = std::chrono::steady_clock;

double seconds_since(TrainClock::time_point start) {
  return std::chrono::duration<double>(TrainClock::now() - start).count();
}

double sum_of(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

class Trainer {
 public:
  Trainer(const CaseSpec& spec, const TrainOptions& options, const Group& group, Pulse& pulse,
          const std::string& shared_dir, const Say& say)
      : spec_(spec),
        options_(options),
        group_(group),
        pulse_(pulse),
        info_(strategy_registry().at(spec.strategy)),
        own_(own_parameters(spec)),
        recipe_(workload_registry().at(spec.workload).recipe),
        plain_(workload_of(spec, shared_dir)),
        noting_(options.show_shapes ? noting_workload(*plain_, notes_) : nullptr),
        workload_(noting_ ? *noting_ : *plain_),
        source_(workload_, spec, recipe_, options.drop_last, group.rank()),
        voice_(spec, recipe_, group, say),
        epochs_(options.epochs.value_or(recipe_.epochs)) {}

  TrainResult run() {
    refuse_early();
    forget_peak_memory();
    strategy_ = info_.make(setup_of(spec_, info_, workload_, group_));
    resume();
    prepare();
    voice_.greet(workload_);
    while (state_.epoch < epochs_ && !over_) epoch();
    require_finite(*strategy_, steps_done() - 1);  // the last loss was known before the last update
    strategy_->finish();
    if (options_.checkpoint_every > 0) checkpoint();
    save();
    TrainResult result = summary();
    group_.barrier();  // nobody tears down what another still uses
    return result;
  }

 private:
  bool leads() const { return group_.rank() == 0; }

  void refuse_early() const {
    if (options_.evaluate || options_.target_accuracy) require_classes(workload_, spec_.workload);
    if (options_.show_shapes && promised(info_, Params(info_.params, spec_.params, info_.name)).recorded)
      throw UsageError("--show-shapes: a step that is replayed calls no model that could tell its shapes; use " + info_.name + ".graph=off");
    const bool stores = options_.checkpoint_every > 0 || !options_.resume.empty();
    if (stores && (info_.gradient == Gradient::local || !own_.empty()))
      throw UsageError("--checkpoint-every and --resume: each rank of " + info_.name +
                       " has parameters and an optimizer of its own, and a checkpoint holds one of each");
    if (!leads()) return;
    if (!options_.save.empty()) require_writable(options_.save, "--save");
    if (options_.checkpoint_every > 0) require_writable(options_.checkpoint, "--checkpoint");
  }

  RunIdentity identity() const {
    return {{"workload", spec_.workload},
            {"scale", std::to_string(spec_.scale)},
            {"dtype", spec_.dtype},
            {"samples", std::to_string(workload_.samples())},
            {"data", spec_.data_dir.empty() ? "drawn" : "files"},
            {"seed", std::to_string(spec_.seed)},
            {"global_batch", std::to_string(source_.global_batch())},
            {"accumulate", std::to_string(spec_.accumulate)},
            {"clip_norm", spec_.clip_norm ? python_float(*spec_.clip_norm) : "none"},
            {"drop_last", options_.drop_last ? "yes" : "no"},
            {"steps_per_epoch", std::to_string(source_.steps_per_epoch())}};
  }

  void resume() {
    if (options_.resume.empty()) return;
    Checkpoint stored = load_checkpoint(options_.resume, identity(), source_.steps_per_epoch());
    if (stored.state.epoch >= epochs_)
      throw UsageError("--resume '" + options_.resume + "' has had all of " + std::to_string(epochs_) +
                       " epochs; give more --epochs");
    settle();
    try {
      strategy_->load(stored.snapshot);
    } catch (const UsageError& error) {
      throw UsageError("--resume '" + options_.resume + "': " + error.what());
    }
    state_ = std::move(stored.state);
    resumed_at_ = steps_done();
    if (state_.running.size() != static_cast<size_t>(group_.world())) pool_running();
    losses_ = state_.running[static_cast<size_t>(group_.rank())];
  }

  // A strategy's first step may round in another way than all later ones (c10d's Reducer multiplies gradients by 1/n
  // until they lie in its buckets, then divides by n): one is taken for nothing, so that a run goes on as it would
  // have.
  void settle() {
    Phases unused;
    strategy_->step(0, source_.at(0), unused);
    pulse_.beat();
  }

  // Another world than the one that wrote it: each rank goes on with the mean over those that there were.
  void pool_running() {
    std::vector<double> mean(static_cast<size_t>(state_.step), 0);
    for (const auto& losses : state_.running)
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += losses[i] / static_cast<double>(state_.running.size());
    state_.running.assign(static_cast<size_t>(group_.world()), mean);
  }

  // Rows that have to be drawn or unpacked: every rank its share, before the clock runs.
  void prepare() {
    for (const at::Tensor& ids : at::arange(group_.rank(), workload_.samples(), group_.world()).split(1000)) {
      workload_.prepare(ids.contiguous());
      pulse_.beat();
    }
    group_.barrier();
    source_.prepare();
  }

  int64_t steps_done() const { return state_.epoch * source_.steps_per_epoch() + state_.step; }

  void epoch() {
    source_.set_epoch(state_.epoch);
    bool due = false;
    while (state_.step < source_.steps_per_epoch()) {
      step();
      due = options_.checkpoint_every > 0 && steps_done() % options_.checkpoint_every == 0;
      if (due && state_.step < source_.steps_per_epoch()) checkpoint();
    }
    finish_epoch();
    if (due && state_.epoch < epochs_ && !over_) checkpoint();
  }

  void step() {
    const auto start = TrainClock::now();
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
    if (rows_ == 0) first_loss_ = loss;
    last_loss_ = loss;
    const double seconds = seconds_since(start);
    state_.seconds += seconds;
    seconds_ += seconds;
    rows_ += source_.rows(state_.step);
    ++state_.step;
    pulse_.step();
    if (options_.show_shapes) voice_.shapes(notes_, micro, result.output, source_.rows(state_.step - 1));
    if (voice_.progress_due()) voice_.progress(place(loss));
  }

  TrainingPlace place(double loss) const {
    const int64_t left = epochs_ * source_.steps_per_epoch() - steps_done();
    return {.epoch = state_.epoch,
            .epochs = epochs_,
            .step = state_.step,
            .steps = source_.steps_per_epoch(),
            .loss = loss,
            .samples_per_s = static_cast<double>(rows_) / seconds_,
            .left_s = static_cast<double>(left) * seconds_ / static_cast<double>(steps_done() - resumed_at_)};
  }

  // The sampler gives every rank as many rows in a step as the others, so the mean over ranks is that over rows.
  void finish_epoch() {
    const double world = group_.world(), steps = static_cast<double>(losses_.size());
    std::vector<double> own = losses_;
    own.push_back(sum_of(losses_));
    at::Tensor all = at::tensor(own, at::TensorOptions(at::kDouble));
    group_.sum(all);
    const double total = all[-1].item<double>();
    for (int64_t i = 0; i + 1 < all.numel(); ++i) state_.loss_curve.push_back(all[i].item<double>() / world);
    const EpochLoss loss{state_.epoch, epochs_, source_.steps_per_epoch(), total, total / (steps * world)};
    state_.epoch_losses.push_back(voice_.epoch(loss, options_.show_shapes));
    losses_.clear();
    ++state_.epoch;
    state_.step = 0;
    verify_ranks();
    judge_accuracy();
  }

  // Parameters and optimizer state of all ranks, bit for bit.
  void verify_ranks() {
    if (info_.gradient == Gradient::local) return;  // they differ until they are averaged, at the end at the latest
    const auto texts = group_.gather(fingerprint(strategy_->parameters(), own_) + " " + fingerprint(strategy_->state(), own_));
    std::string unlike;
    for (size_t rank = 1; rank < texts.size() && unlike.empty(); ++rank)
      if (texts[rank] != texts[0])
        unlike = "after epoch " + std::to_string(state_.epoch - 1) + " rank " + std::to_string(rank) +
                 " has other parameters or another optimizer state than rank 0";
    if (group_.agree(!unlike.empty()) == 0) return;
    over_ = true;
    if (leads())
      checks_.push_back({.name = "equal-ranks",
                         .status = "failed",
                         .compared = "parameters and optimizer state across ranks, bit for bit",
                         .detail = unlike,
                         .likely = "gradients were not reduced on every rank, or a rank skipped a step"});
  }

  void judge_accuracy() {
    if (!options_.evaluate && !options_.target_accuracy) return;
    const Accuracy found = evaluate(*strategy_, workload_, group_, pulse_);
    state_.accuracy.push_back(found.share());
    char text[96];
    std::snprintf(text, sizeof text, "Accuracy: %.2f %% (%lld of %lld)", 100 * found.share(),
                  static_cast<long long>(found.right), static_cast<long long>(found.rows));
    voice_.line(text);
    if (!options_.target_accuracy || found.share() < *options_.target_accuracy) return;
    if (!time_to_accuracy_s_) time_to_accuracy_s_ = state_.seconds;
    over_ = true;
  }

  void checkpoint() {
    const auto world = group_.world();
    at::Tensor running = at::zeros({world, static_cast<int64_t>(losses_.size())}, at::TensorOptions(at::kDouble));
    if (!losses_.empty()) running[group_.rank()] = at::tensor(losses_, at::TensorOptions(at::kDouble));
    if (!losses_.empty()) group_.sum(running);
    Checkpoint made{snapshot_of(*strategy_), state_};
    pulse_.beat();
    if (!leads()) return;
    made.state.running.clear();
    for (int64_t rank = 0; rank < world; ++rank) {
      const at::Tensor row = running[rank].contiguous();
      made.state.running.emplace_back(row.const_data_ptr<double>(), row.const_data_ptr<double>() + row.numel());
    }
    save_checkpoint(options_.checkpoint, identity(), made);
    pulse_.beat();
  }

  // Parameters and buffers under their own names: what Python's load_state_dict takes.
  void save() {
    if (options_.save.empty()) return;
    TensorFile file{.tensors = strategy_->parameters(), .metadata = {{"format", "pt"}}};
    for (auto& named : strategy_->buffers()) file.tensors.push_back(std::move(named));
    if (leads()) save_tensors(options_.save, file);
  }

  TrainResult summary() {
    TrainResult result;
    RankRecord& record = result.record;
    const int64_t steps = steps_done() - resumed_at_;
    record.rank = group_.rank();
    record.threads = at::get_num_threads();
    record.steps_per_sample = std::max<int64_t>(steps, 1);
    record.rows_per_step = steps > 0 ? static_cast<double>(rows_) / static_cast<double>(steps) : 0;
    double total_ns = 0;
    for (const int64_t ns : phases_.total_ns()) total_ns += static_cast<double>(ns);
    for (size_t i = 0; i < phase_names.size(); ++i)
      if (const auto ns = phases_.total_ns()[i]; ns != 0)
        record.phases_ns[std::string(phase_names[i])] = static_cast<double>(ns) / static_cast<double>(steps);
    record.peak_rss_bytes = peak_memory_bytes();
    record.own_rss_bytes = own_peak_memory_bytes();
    record.first_loss = first_loss_;
    record.last_loss = last_loss_;
    record.parameters_hash = fingerprint(strategy_->parameters(), own_);
    if (options_.target_accuracy) {
      char text[96];
      std::snprintf(text, sizeof text, "%.4f after %lld epochs, wanted %g", state_.accuracy.back(),
                    static_cast<long long>(state_.epoch), *options_.target_accuracy);
      checks_.push_back({.name = "target-accuracy",
                         .status = time_to_accuracy_s_ ? "passed" : "failed",
                         .compared = "part of the test rows named rightly",
                         .detail = text});
    }
    if (leads()) result.checks = checks_;
    result.training = {
        .epochs = epochs_,
        .steps_per_epoch = source_.steps_per_epoch(),
        .steps = steps_done(),
        .resumed_at = resumed_at_,
        .seconds = state_.seconds,
        .samples_per_s = seconds_ > 0 ? std::optional(static_cast<double>(rows_) / seconds_) : std::nullopt,
        .data_fraction =
            total_ns > 0 ? std::optional(static_cast<double>(phases_.total_ns()[0]) / total_ns) : std::nullopt,
        .epoch_losses = state_.epoch_losses,
        .loss_curve = state_.loss_curve,
        .accuracy = state_.accuracy,
        .target_accuracy = options_.target_accuracy,
        .time_to_accuracy_s = time_to_accuracy_s_};
    return result;
  }

  const CaseSpec& spec_;
  const TrainOptions& options_;
  const Group& group_;
  Pulse& pulse_;
  const StrategyInfo& info_;
  const std::vector<std::string> own_;  // parameters that each rank keeps for itself
  const Recipe& recipe_;
  ShapeNotes notes_;
  std::unique_ptr<Workload> plain_, noting_;
  const Workload& workload_;
  TrainSource source_;
  TrainVoice voice_;
  std::unique_ptr<Strategy> strategy_;
  Phases phases_{true};
  TrainingState state_;
  std::vector<double> losses_;  // of this rank, in this epoch
  std::vector<CheckRow> checks_;
  int64_t epochs_, resumed_at_ = 0, rows_ = 0;
  double seconds_ = 0;  // as state_.seconds, of this run alone
  double first_loss_ = 0, last_loss_ = 0;
  std::optional<double> time_to_accuracy_s_;
  bool over_ = false;
};

}  // namespace

TrainResult train_case(const CaseSpec& spec, const TrainOptions& options, const Group& group, Pulse& pulse,
                       const std::string& shared_dir, const Say& say) {
  return Trainer(spec, options, group, pulse, shared_dir, say).run();
}

}  // namespace dpbench
