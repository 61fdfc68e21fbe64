// dpbench run: plan, launch, report.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/launched/world.h"
#include "harness/front/prepare.h"
#include "harness/front/session.h"
#include "harness/front/table.h"
#include "harness/front/text.h"
#include "harness/front/traces.h"
#include "harness/report/save.h"
#include "harness/report/to_type.h"
#include "harness/report/tool.h"
#include "workloads/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

// Saving while the run goes on may fail (a full disk): it is said once, and tried again.
class Saver {
 public:
  Saver(RunDirectory& directory, ProgressLine& progress) : directory_(directory), progress_(progress) {}

  bool save(const Report& report, bool force) {
    try {
      directory_.save(report, force);
      return true;
    } catch (const WriteError& error) {
      if (!complained_) progress_.error(error.what());
      complained_ = true;
      return false;
    }
  }

 private:
  RunDirectory& directory_;
  ProgressLine& progress_;
  bool complained_ = false;
};

std::string output_of(const Report& report, const Options& options) {
  if (options.output == "json") return to_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (options.output == "csv") return report_csv(report);
  if (options.output == "markdown") return report_markdown(report);
  if (options.output == "none") return "";
  return report_table(report, coloured(options.color, STDOUT_FILENO));
}

void say_reasons(const Report& report, ProgressLine& progress) {
  for (const auto& record : report.cases)
    if (record.status == "failed" || record.status == "wrong")
      progress.warning(record.spec.id + " " + record.status + ": " + record.reason);
}

std::string closing(const Report& report, const fs::path& path, bool saved, int code) {
  std::string text = saved ? "Saved " + (path / "run.json").string() : "NOT saved: " + (path / "run.json").string();
  if (fs::exists(path / "logs")) text += " (and logs/)";
  if (fs::exists(path / "traces")) text += " (and traces/, for ui.perfetto.dev)";
  if (report.status == "interrupted") text += ", interrupted";
  if (code != 0) text += "; exit " + std::to_string(code);
  return text;
}

std::string charts_command(const fs::path& run) {
  return "Charts: " + to_type("report " + shell_word(run.string()) + " --html report.html");
}

// A user's mistake that only a worker could see leaves nothing behind, unless something was measured before.
void drop_unless_measured(const Report& report, RunDirectory& directory) {
  for (const auto& record : report.cases)
    if (!record.launches.empty()) return;
  directory.drop();
}

std::string why_no_baseline(const Report& report) {
  if (report.status != "complete") return "the run was interrupted";
  for (const auto& record : report.cases)
    if (record.status == "failed" || record.status == "wrong")
      return record.spec.id + " is " + record.status +
             ", no later run of it could be judged; mend it, or leave it out with --filter";
  return "";
}

// A baseline is what later runs are judged by: never half a run, and no case of it that would go unjudged.
bool keep_baseline(const Report& report, const Options& options, ProgressLine& progress) {
  if (options.save_baseline.empty()) return true;
  if (const std::string why = why_no_baseline(report); !why.empty()) {
    progress.error("not kept as baseline '" + options.save_baseline + "': " + why);
    return true;
  }
  try {
    progress.warning("Kept as baseline " + save_baseline(report, options.out_dir, options.save_baseline).string());
    return true;
  } catch (const std::exception& error) {
    progress.error(error.what());
    return false;
  }
}

Json run_message(const Options& options, const fs::path& traces, int launch) {
  Sampling sampling = options.sampling;
  sampling.max_time_s /= options.launches;
  sampling.measure_peak = launch == 0 && !options.quick;  // of a replica a tenth of a second
  if (options.trace && launch == 0) sampling.trace_dir = traces;
  return {{"do", "run"},
          {"sampling", to_json(sampling)},
          {"launch", launch},
          {"check", options.check == "auto" && launch == 0}};
}

SessionEnding measure(const Prepared& prepared, const RunDirectory& directory, Report& report, ProgressLine& progress,
                      Saver& saver) {
  const Signals signals;
  const Scratch scratch;
  const fs::path traces = fs::absolute(directory.path()) / "traces";
  if (prepared.options.trace) fs::create_directories(traces);
  const WorkerSettings settings = worker_settings(prepared, directory.path() / "logs");
  Launcher launcher(settings, scratch, signals, [&](const std::string& text) { progress.note(text); });
  WorkerRunner runner(launcher, signals, "ran");
  const auto command = [&](int launch) { return run_message(prepared.options, traces, launch); };
  // A launcher's other ranks on this host are not ours to tell from others' work.
  const auto load = [&]() -> std::optional<CpuTimes> {
    if (prepared.options.world) return std::nullopt;
    return cpu_times(::getpid(), prepared.machine.cpus, monotonic_seconds());
  };
  Session session(
      prepared.options, report, prepared.plan.cases.size(), runner, progress, command,
      [&](const Report& so_far) { saver.save(so_far, false); }, load, prepared.machine.cores);
  const SessionEnding ended = session.run();
  if (prepared.options.trace) merge_traces(report, traces, [&](const std::string& text) { progress.warning(text); });
  return ended;
}

int run_prepared(const Prepared& prepared) {
  const Options& options = prepared.options;
  Report report = new_report(prepared);
  const std::string id = run_id(std::chrono::system_clock::now(), run_commit(report.tool), machine_label(report.env));
  RunDirectory directory(options.out_dir, id);
  report.id = directory.id();
  ProgressLine progress(progress_style(options, ::isatty(STDERR_FILENO), std::getenv("TERM")), options.verbose,
                        static_cast<int>(prepared.plan.cases.size()), monotonic_seconds(), options.launches);
  for (const auto& warning : report.env.at("warnings")) progress.later(warning);
  Saver saver(directory, progress);
  saver.save(report, true);
  const SessionEnding ended = measure(prepared, directory, report, progress, saver);
  std::error_code ignored;
  fs::remove(directory.path() / "logs", ignored);  // only when it is empty
  if (!ended.usage.empty()) drop_unless_measured(report, directory);
  if (!ended.usage.empty() && !fs::exists(directory.path())) throw UsageError(one_line(ended.usage, 400));
  Ending ending = ending_of(report);
  ending.usage = !ended.usage.empty();
  ending.signal = ended.signal;
  const bool saved = saver.save(report, true);
  const bool kept = keep_baseline(report, options, progress);
  say_reasons(report, progress);
  ending.unsaved = !print(output_of(report, options)) || !saved || !kept;
  const int code = exit_code(ending);
  const std::string last = closing(report, directory.path(), saved, code);
  saved ? progress.warning(last) : progress.error(last);
  if (saved) progress.warning(charts_command(directory.path()));
  return code;
}

}  // namespace

int run_command(const Options& options) {
  if (!options.save_baseline.empty()) check_baseline_place(options.out_dir, options.save_baseline);
  const Prepared prepared = prepare(options);
  return options.dry_run ? print_plan(prepared) : run_prepared(prepared);
}

}  // namespace dpbench
