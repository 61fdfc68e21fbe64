// dpbench train: trains one case to the end and prints the workload's log lines on stdout.
#include <cstdio>
#include <string>
#include <vector>

#include "harness/front/cli/measuring_flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/run/choose_threads.h"
#include "harness/front/run/run.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/summarise.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Formats the training progress with epoch and step first, so that they stay visible on an 80-column terminal.
std::string progress_text(const Json& event) {
  char text[200];
  std::snprintf(text, sizeof text, "%lld/%lld · %lld/%lld · loss %.4f · %.0f samples/s · %s left",
                event.at("epoch").get<long long>() + 1, event.at("epochs").get<long long>(),
                event.at("step").get<long long>(), event.at("steps").get<long long>(), event.at("loss").get<double>(),
                event.at("samples_per_s").get<double>(), duration_text(event.at("left_s").get<double>()).c_str());
  return text;
}

// Prints the training's log lines to stdout as they arrive, and updates the progress line on stderr.
class Listener {
 public:
  explicit Listener(ProgressLine& progress) : progress_(progress) {}

  void on_event(const Json& event) {
    if (event.at("event") == name_of(Event::line)) {
      progress_.clear();
      printed_ &= print(sanitised(event.at("text").get<std::string>()) + "\n");
      return;
    }
    const double epochs = event.at("epochs"), steps = event.at("steps");
    progress_.part((event.at("epoch").get<double>() * steps + event.at("step").get<double>()) / (epochs * steps),
                   progress_text(event));
  }
  bool printed() const { return printed_; }

 private:
  ProgressLine& progress_;
  bool printed_ = true;
};

void fill_record(CaseRecord& record, CaseOutcome outcome) {
  using Kind = CaseOutcome::Kind;
  record.checks = std::move(outcome.checks);
  record.reason = std::move(outcome.reason);
  record.training = std::move(outcome.training);
  if (outcome.kind == Kind::interrupted) return;
  record.status = outcome.kind == Kind::ran           ? CaseStatus::ok
                  : outcome.kind == Kind::unavailable ? CaseStatus::skipped
                                                      : CaseStatus::failed;
  if (outcome.kind == Kind::ran) record.launches.push_back({.index = 0, .ranks = std::move(outcome.ranks)});
}

// Returns ", N tokens/s"; an empty text if the workload's samples have no tokens.
std::string tokens_text(const CaseRecord& record) {
  const auto ranks = record.launches.empty() ? std::vector<RankRecord>() : record.launches[0].ranks;
  const int64_t tokens = ranks.empty() ? 0 : ranks[0].tokens_per_sample;
  if (tokens == 0) return "";
  char text[60];
  std::snprintf(text, sizeof text, ", %.0f tokens/s",
                record.training->samples_per_s.value_or(0) * static_cast<double>(tokens));
  return text;
}

std::string result_of(const CaseRecord& record, double seconds) {
  std::string text = record.spec.id + " " + record.status + (record.reason.empty() ? "" : ": " + record.reason);
  if (!record.training) return text;
  const TrainingRecord& t = *record.training;
  char figures[240];
  std::snprintf(figures, sizeof figures, ": %lld steps in %.3f s (%.0f samples/s%s, %.1f %% of it data), %.3f s in all",
                static_cast<long long>(t.steps - t.resumed_at), t.seconds, t.samples_per_s.value_or(0),
                tokens_text(record).c_str(), 100 * t.data_fraction.value_or(0), seconds);
  text += figures;
  if (t.time_to_accuracy_s) {
    std::snprintf(figures, sizeof figures, "; accuracy %g reached after %.3f s", *t.target_accuracy,
                  *t.time_to_accuracy_s);
    text += figures;
  }
  return text;
}

class TrainRun : public ReportRun {
 public:
  TrainRun(const TrainingOptions& options, World* world)
      : ReportRun(options, world, "run"), training_options_(options) {}

  void plan() override {
    Run::plan();
    const auto& cases = prepared_.plan.cases;
    if (cases.size() == 1) return;
    std::vector<std::string> ids;
    for (const auto& spec : cases) ids.push_back(spec.id);
    throw UsageError("train runs one case; this selects " + std::to_string(ids.size()) + ": " +
                     one_line(join(ids), 300) + ". Give each flag one value");
  }

 private:
  Start begin() override {
    choose_threads(prepared_, [](const std::string&) {});
    began_ = monotonic_seconds();
    const Start start = ReportRun::begin();
    report_.config["training"] = to_json(training_options_.training);
    return start;
  }

  LoopEnding run_cases() override {
    Listener listener(*progress_);
    CaseOutcome outcome = train([&](const Json& event) { listener.on_event(event); });
    if (outcome.kind == CaseOutcome::Kind::usage) return {.usage = outcome.reason};
    const int signal = outcome.signal;
    unwritten_ = outcome.unwritten || !listener.printed();
    set_loaded_versions(report_.env, outcome.versions);
    fill_record(report_.cases[0], std::move(outcome));
    if (!signal) report_.status = RunStatus::complete;
    summarise(report_);
    progress_->print_held();
    return {.signal = signal};
  }

  CaseOutcome train(const CaseWatch::EventHandler& handler) {
    const Signals signals;
    Launcher launcher(worker_settings(prepared_, logs()), signals, Event::trained, note());
    TrainOptions training = training_options_.training;
    if (training.checkpoint_every > 0 && training.checkpoint.empty())
      training.checkpoint = directory_->path() / "checkpoint.safetensors";
    CaseOutcome outcome =
        launcher.run(prepared_.plan.cases[0], {{"do", name_of(Order::train)}, {"train", to_json(training)}}, handler);
    for (const auto& complaint : launcher.end_group()) progress_->warning(complaint);
    return outcome;
  }

  Ending ending() const override {
    Ending end = ending_of(report_);
    end.unsaved = unwritten_;
    return end;
  }

  // Returns the result line of the training, which is printed after a success as well as after a failure.
  std::vector<std::string> complaints() const override {
    return {result_of(report_.cases[0], monotonic_seconds() - began_)};
  }
  // The text printed after a training is empty: the log lines were printed on stdout during the training.
  std::string output() const override { return ""; }

  const TrainingOptions& training_options_;
  double began_ = 0;
  bool unwritten_ = false;
};

}  // namespace

Command train_command() {
  return measuring_command<TrainingOptions, TrainRun>(
      {.name = "train",
       .arguments = "--strategy NAME --workload NAME [FLAGS]",
       .summary = "train one workload to the end: log lines, checkpoints, a saved model",
       .examples = {{"train --strategy ddp --cpus 2 --workload mnist-mlp --save model.safetensors", ""},
                    {"train --strategy cpu --workload convnet --epochs 4 --target-accuracy 0.97", ""}},
       .exit_codes = {1, 3, 77, 128}},
      add_train_flags, settle_train);
}

}  // namespace dpbench
