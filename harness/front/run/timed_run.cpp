#include "harness/front/run/timed_run.h"

#include <unistd.h>

#include <exception>
#include <optional>
#include <utility>

#include "harness/forecast/plan/case_memory.h"
#include "harness/front/run/choose_threads.h"
#include "harness/front/run/columns.h"
#include "harness/front/run/duel/paired_runner.h"
#include "harness/front/run/table.h"
#include "harness/front/run/traces.h"
#include "harness/front/text/print.h"
#include "harness/report/answer/answer.h"
#include "harness/report/machine/environment.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

std::string why_no_baseline(const Report& report) {
  if (report.status != RunStatus::complete) return "the run was interrupted";
  for (const auto& record : report.cases)
    if (record.bad() || record.status == CaseStatus::disturbed || record.status == CaseStatus::unproven)
      return record.spec.id + " is " + record.status + ", so later runs could not be compared with it. " +
             (record.status == CaseStatus::disturbed ? "Stop other programs" : "Fix it") +
             ", or exclude it with --filter";
  return "";
}

}  // namespace

void TimedRun::prepare() {
  if (!run_options_.save_baseline.empty()) check_baseline_path(run_options_.out_dir, run_options_.save_baseline);
  Run::prepare();
  std::vector<std::string> parameters;
  for (const StrategyEntry& strategy : prepared_.catalogue.strategies)
    for (const ParamEntry& param : strategy.params) parameters.push_back(param.name);
  check_view(run_options_.view, parameters);
}

void TimedRun::plan() {
  Run::plan();
  const StrategyEntry* reference = find_entry(prepared_.catalogue.strategies, options_.what.reference.strategy);
  if (world_ && reference && reference->parallelism == Parallelism::ranks)
    throw UsageError("--reference " + reference->name + ": a launcher's ranks can run one strategy at a time. Use a " +
                     "strategy of one process, or --launcher self");
}

Run::Start TimedRun::begin() {
  choose_threads(prepared_, [](const std::string&) {});
  Start start = ReportRun::begin();
  start.warnings = report_.env.at("warnings");
  // The load measured during the run, if it is high, is printed above the table, except in a run under a launcher,
  // which does not measure it.
  if (!world_) std::erase(start.warnings, load_warning(report_.env));
  return start;
}

void TimedRun::on_start() {
  if (run_options_.output != Form::jsonl) return;
  events_.emplace(report_, print);
  progress_->tell(*events_);
  events_->run_starts((directory_->path() / "run.json").string());
}

void TimedRun::on_end(int code) {
  if (events_) events_->run_ends(code);
}

LoopEnding TimedRun::run_cases() {
  const fs::path traces = fs::absolute(directory_->path()) / "traces";
  if (run_options_.trace) fs::create_directories(traces);
  const auto make_command = [&](int launch, const CaseSpec&) { return order(traces, launch); };
  const LoopEnding ended = run_pairs(make_command);
  for (CaseRecord& record : report_.cases)
    if (!record.launches.empty()) record.memory_formula = forecast::formula_memory(record.spec);
  report_.answer = answer_of(report_);
  if (run_options_.trace) merge_traces(report_, traces, [&](const std::string& text) { progress_->warning(text); });
  return ended;
}

LoopEnding TimedRun::run_pairs(LaunchLoop::MakeCommand make_command) {
  const Signals signals;
  Launcher cases(worker_settings(prepared_, logs()), signals, Event::ran, note());
  cases.on_checking([this](const auto& id, const auto& state) { progress_->state(id, state); });
  Launcher references(worker_settings(prepared_, logs() / "reference"), signals, Event::ran, note());
  const auto& plan = prepared_.plan;
  const Reference& reference = prepared_.options.what.reference;
  const auto reference_of = [&](const CaseSpec& spec) -> const CaseSpec* {
    const auto first =
        std::ranges::find_if(plan.cases, [&](const CaseSpec& one) { return is_reference_of(one, spec, reference); });
    return first == plan.cases.end() || first->id == spec.id ? nullptr : &*first;
  };
  PairedRunner runner(cases, references, reference_of,
                      {.seed = options_.what.seed,
                       .cores = cores_of_run(prepared_),
                       .keep_disturbed = options_.keep_disturbed,
                       .cpu_times = cpu_times_reader(),
                       .long_blocks = run_options_.long_blocks});
  return measure_with(runner, std::move(make_command));
}

LoopEnding TimedRun::measure_with(CaseRunner& runner, LaunchLoop::MakeCommand make_command) {
  return run_launches(runner, std::move(make_command), cpu_times_reader(), choose());
}

Json TimedRun::order(const fs::path& traces, int launch) const {
  Sampling sampling = run_options_.sampling;
  sampling.max_time_s /= run_options_.launches;
  // Measure the machine's peak compute and memory rates only in the first launch, and not with --quick, because the
  // measurement takes 0.1 s per replica.
  sampling.measure_peak = launch == 0 && !run_options_.quick;
  if (run_options_.trace && launch == 0) sampling.trace_dir = traces;
  // `tune` may end a case before its last launch, so the last steps of the first launch are always audited, too.
  const bool last_steps = launch == 0 || launch + 1 >= run_options_.launches;
  return {{"do", name_of(Order::block)},
          {"sampling", to_json(sampling)},
          {"last_steps", last_steps},
          {"check", run_options_.check && launch == 0}};
}

std::string TimedRun::output() const {
  switch (run_options_.output) {
    case Form::table:
      return report_table(report_, coloured(run_options_.color, STDOUT_FILENO), run_options_.view) + answer();
    case Form::json:
      return json_text(to_json(report_));
    case Form::csv:
      return report_csv(report_, run_options_.view);
    case Form::markdown:
      return report_markdown(report_, run_options_.view) + answer();
    case Form::jsonl:  // nothing is left to print: with -o jsonl, the lines were printed during the run
    case Form::none:
      break;
  }
  return "";
}

// Returns the main sentences of the run's answer (which strategy is fastest, and why), to print below the table.
std::string TimedRun::answer() const {
  constexpr size_t most_lines = 6;
  if (run_options_.quiet || !report_.answer) return "";
  const std::string lines = brief_answer(*report_.answer, most_lines, run_options_.output);
  return lines.empty() ? "" : "\n" + lines;
}

// Returns how the run ended. It is inconclusive if the user asked to save it as a baseline and it cannot serve as one.
Ending TimedRun::ending() const {
  Ending end = ReportRun::ending();
  end.unsaved = end.unsaved || (events_ && !events_->printed());
  end.inconclusive = end.inconclusive || (!run_options_.save_baseline.empty() && !why_no_baseline(report_).empty());
  return end;
}

// Saves the run as a baseline if the user asked for one. Refuses an interrupted run or one with failed, disturbed or
// unproven cases, because later runs are compared with the baseline.
bool TimedRun::write_extra_files() {
  if (run_options_.save_baseline.empty()) return true;
  if (const std::string why = why_no_baseline(report_); !why.empty()) {
    progress_->error("not saved as baseline '" + run_options_.save_baseline + "': " + why);
    return true;
  }
  try {
    progress_->say("Saved as baseline " +
                   save_baseline(report_, run_options_.out_dir, run_options_.save_baseline).string());
    return true;
  } catch (const std::exception& error) {
    progress_->error(error.what());
    return false;
  }
}

std::string TimedRun::closing_line(bool saved) const {
  std::string text = Run::closing_line(saved);
  if (fs::exists(logs())) text += " (and logs/)";
  if (fs::exists(directory_->path() / "traces")) text += " (and traces/, for ui.perfetto.dev)";
  return text + (report_.status == RunStatus::interrupted ? ", interrupted" : "");
}

std::vector<std::string> TimedRun::hints() const {
  const std::string run = shell_word(directory_->path().string());
  return {"Which strategy, and why: " + shell_command("advise " + run),
          "Charts: " + shell_command("report " + run + " --html report.html")};
}

}  // namespace dpbench
