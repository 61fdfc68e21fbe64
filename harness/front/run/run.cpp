#include "harness/front/run/run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "harness/front/launch/worker_program.h"
#include "harness/front/run/table.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/tool.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;

void Run::prepare() { prepared_ = dpbench::prepare(options_, find_worker(), world_); }

void Run::plan() {
  plan_cases(prepared_);
  skip_refused(prepared_);
}

Ending Run::print_plan() const { return {.unsaved = !print(plan_text(shown_plan(), options_.output))}; }

void Run::measure() {
  const Start start = begin();
  open_directory(start);
  progress_.emplace(progress_style(options_, ::isatty(STDERR_FILENO), std::getenv("TERM")), options_.verbose,
                    static_cast<int>(start.cases), monotonic_seconds(), start.launches);
  on_start();
  for (const auto& warning : start.warnings) progress_->warn_later(warning);
  save(true);  // save the report without results, to find write errors before anything is measured
  ended_ = run_cases();
  after_cases();
  std::error_code ignored;
  if (directory_)  // remove() deletes a log directory only if it is empty
    for (const char* logs : {"logs/base", "logs/new", "logs/reference", "logs"})
      fs::remove(directory_->path() / logs, ignored);
  if (ended_.usage.empty() || measured()) return;
  if (directory_) directory_->remove();
  on_end(exit_code({.usage = true}));
  throw UsageError(one_line(ended_.usage, 500));
}

Ending Run::report() {
  save(true);
  progress_->print_held();
  for (const auto& complaint : complaints()) progress_->warning(complaint);
  if (!ended_.usage.empty() && options_.quiet) progress_->error(one_line(ended_.usage, 500));
  progress_->clear();
  Ending end = ending();
  end.signal = ended_.signal;
  end.usage = end.usage || !ended_.usage.empty();
  end.unsaved = !print(output()) || end.unsaved || !saved_;
  end.unsaved = !write_extra_files() || end.unsaved;
  const int code = exit_code(end);
  const std::string last = closing_line(saved_) + (code ? "; exit " + std::to_string(code) : "");
  saved_ ? progress_->say(last) : progress_->error(last);
  if (saved_)
    for (const auto& hint : hints()) progress_->say(hint);
  on_end(code);
  return end;
}

void Run::open_directory(const Start& start) {
  start.id = run_id(std::chrono::system_clock::now(), run_commit(start.tool), machine_label(start.env));
  if (document_.empty()) return;
  directory_.emplace(options_.out_dir, start.id);
  start.id = directory_->id();
}

// Saves the report at most once a second unless `force` is set. A failure such as a full disk is reported once; the
// next save tries again.
void Run::save(bool force) {
  if (!directory_ || (!force && monotonic_seconds() < next_save_)) return;
  saved_ = true;
  try {
    directory_->save(document_, json());
  } catch (const WriteError& error) {
    saved_ = false;
    if (!save_error_shown_) progress_->error(error.what());
    save_error_shown_ = true;
  }
  next_save_ = monotonic_seconds() + 1;
}

std::string Run::closing_line(bool saved) const {
  return (saved ? "Saved " : "NOT saved: ") + (directory_->path() / (document_ + ".json")).string();
}

fs::path Run::logs() const { return directory_ ? directory_->path() / "logs" : fs::path(); }

WorkerSettings Run::worker_settings(const Prepared& prepared, const fs::path& logs, const std::string& label) {
  WorkerSettings settings = dpbench::worker_settings(prepared, logs);
  settings.output = [this, label](const std::string& text) { progress_->output(label + text); };
  return settings;
}

Launcher::Say Run::note() {
  return [this](const std::string& text) { progress_->note(text); };
}

ReadCpuTimes Run::cpu_times_reader() const {
  if (world_) return {};
  return [this] { return cpu_times(::getpid(), prepared_.machine.cpus, monotonic_seconds()); };
}

Run::Start ReportRun::begin() {
  report_ = new_report(prepared_);
  return {.id = report_.id,
          .tool = report_.tool,
          .env = report_.env,
          .cases = prepared_.plan.cases.size(),
          .launches = options_.launches,
          .warnings = host_differences(report_.env)};
}

void ReportRun::after_cases() { report_.ended = utc_text(std::chrono::system_clock::now()); }

bool ReportRun::measured() const {
  return std::ranges::any_of(report_.cases, [](const CaseRecord& record) { return !record.launches.empty(); });
}

std::vector<std::string> ReportRun::complaints() const { return bad_cases(report_.cases); }

LoopEnding ReportRun::run_launches(CaseRunner& runner, LaunchLoop::MakeCommand make_command, ReadCpuTimes cpu_times,
                                   LaunchLoop::Choose choose) {
  LaunchLoop loop(
      options_, report_, prepared_.plan.cases.size(), runner, *progress_, std::move(make_command),
      [this] { save(false); }, std::move(cpu_times), cores_of_run(prepared_));
  loop.choose_by(std::move(choose));
  return loop.run();
}

}  // namespace dpbench
