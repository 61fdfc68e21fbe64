// dpbench train: one case, trained as its document's program does; that program's lines on stdout.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/prepare.h"
#include "harness/front/text.h"
#include "harness/report/save.h"
#include "harness/report/tool.h"
#include "workloads/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

void refuse_several(const Plan& plan) {
  if (plan.cases.size() == 1) return;
  std::vector<std::string> ids;
  for (const auto& spec : plan.cases) ids.push_back(spec.id);
  throw UsageError("train runs one case, and this makes " + std::to_string(ids.size()) + ": " +
                   one_line(join(ids), 300) + "; give each flag one value");
}

// Epoch and step first; short, for a terminal of 80 columns.
std::string progress_text(const Json& event) {
  char text[200];
  std::snprintf(text, sizeof text, "%lld/%lld · %lld/%lld · loss %.4f · %.0f samples/s · %s left",
                static_cast<long long>(event.at("epoch").get<int64_t>() + 1),
                static_cast<long long>(event.at("epochs").get<int64_t>()),
                static_cast<long long>(event.at("step").get<int64_t>()),
                static_cast<long long>(event.at("steps").get<int64_t>()), event.at("loss").get<double>(),
                event.at("samples_per_s").get<double>(), duration_text(event.at("left_s").get<double>()).c_str());
  return text;
}

// The program's lines go to stdout as they come.
class Listener {
 public:
  explicit Listener(ProgressLine& progress) : progress_(progress) {}

  void hear(const Json& event) {
    if (event.at("event") == "line") {
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

CaseOutcome carry_out(const Prepared& prepared, const fs::path& directory, ProgressLine& progress, Listener& listener) {
  const Signals signals;
  const Scratch scratch;
  Launcher launcher(worker_settings(prepared, directory / "logs"), scratch, signals,
                    [&](const std::string& text) { progress.note(text); });
  TrainOptions training = prepared.options.training;
  if (training.checkpoint_every > 0 && training.checkpoint.empty())
    training.checkpoint = directory / "checkpoint.safetensors";
  CaseOutcome outcome = launcher.run(prepared.plan.cases[0], {{"do", "train"}, {"train", to_json(training)}}, "trained",
                                     [&](const Json& event) { listener.hear(event); });
  for (const auto& complaint : launcher.end_group()) progress.warning(complaint);
  return outcome;
}

void record(CaseRecord& mine, CaseOutcome outcome) {
  using Kind = CaseOutcome::Kind;
  mine.checks = std::move(outcome.checks);
  mine.reason = std::move(outcome.reason);
  mine.training = std::move(outcome.training);
  if (outcome.kind == Kind::interrupted) return;
  mine.status = outcome.kind == Kind::ran ? "ok" : outcome.kind == Kind::unavailable ? "skipped" : "failed";
  if (outcome.kind == Kind::ran) mine.launches.push_back({.index = 0, .ranks = std::move(outcome.ranks)});
}

std::string closing(const CaseRecord& record, double seconds) {
  std::string text = record.spec.id + " " + record.status + (record.reason.empty() ? "" : ": " + record.reason);
  if (!record.training) return text;
  const TrainingRecord& t = *record.training;
  char figures[240];
  std::snprintf(figures, sizeof figures, ": %lld steps in %.3f s (%.0f samples/s, %.1f %% of it data), %.3f s in all",
                static_cast<long long>(t.steps - t.resumed_at), t.seconds, t.samples_per_s.value_or(0),
                100 * t.data_fraction.value_or(0), seconds);
  text += figures;
  if (t.time_to_accuracy_s) {
    std::snprintf(figures, sizeof figures, "; accuracy %g reached after %.3f s", *t.target_accuracy,
                  *t.time_to_accuracy_s);
    text += figures;
  }
  return text;
}

bool save(RunDirectory& directory, const Report& report, ProgressLine& progress) {
  try {
    directory.save(report, true);
    return true;
  } catch (const WriteError& error) {
    progress.warning(error.what());
    return false;
  }
}

int train_prepared(const Prepared& prepared) {
  const Options& options = prepared.options;
  const double began = monotonic_seconds();
  Report report = new_report(prepared);
  report.config["training"] = to_json(options.training);
  RunDirectory directory(options.out_dir,
                         run_id(std::chrono::system_clock::now(), run_commit(report.tool), machine_label(report.env)));
  report.id = directory.id();
  ProgressLine progress(progress_style(options, ::isatty(STDERR_FILENO), std::getenv("TERM")), options.verbose, 1,
                        began);
  bool saved = save(directory, report, progress);
  Listener listener(progress);
  CaseOutcome outcome = carry_out(prepared, directory.path(), progress, listener);
  std::error_code ignored;
  if (outcome.kind == CaseOutcome::Kind::usage) {
    directory.drop();
    throw UsageError(one_line(outcome.reason, 500));
  }
  fs::remove(directory.path() / "logs", ignored);  // only when it is empty
  const int signal = outcome.signal;
  const bool unwritten = outcome.unwritten;
  note_versions(report.env, outcome.versions);
  record(report.cases[0], std::move(outcome));
  if (!signal) report.status = "complete";
  summarise(report);
  saved = save(directory, report, progress);
  Ending ending = ending_of(report);
  ending.signal = signal;
  ending.unsaved = !saved || !listener.printed() || unwritten;
  const int code = exit_code(ending);
  for (const auto& warning : unlike_hosts(report.env)) progress.warning(warning);
  progress.warning(closing(report.cases[0], monotonic_seconds() - began));
  progress.warning((saved ? "Saved " : "NOT saved: ") + (directory.path() / "run.json").string() +
                   (code ? "; exit " + std::to_string(code) : ""));
  return code;
}

}  // namespace

int train_command(const Options& options) {
  const Prepared prepared = prepare(options);
  refuse_several(prepared.plan);
  return options.dry_run ? print_plan(prepared) : train_prepared(prepared);
}

}  // namespace dpbench
