// dpbench duel: two builds measured now, in turn, and judged.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>

#include "harness/front/commands.h"
#include "harness/front/duel_session.h"
#include "harness/front/exit_code.h"
#include "harness/front/options_json.h"
#include "harness/front/prepare.h"
#include "harness/front/table.h"
#include "harness/front/text.h"
#include "harness/front/worker_program.h"
#include "harness/report/save.h"
#include "harness/report/to_type.h"
#include "harness/report/tool.h"
#include "workloads/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

struct Sides {
  Prepared base, now;
};

Prepared prepare_side(const Options& asked, const std::string& build, const std::vector<std::string>& plugins,
                      const std::string& flag) {
  Options options = asked;
  options.what.plugins.insert(options.what.plugins.end(), plugins.begin(), plugins.end());
  try {
    return prepare(std::move(options), build.empty() ? find_worker() : worker_of_build(build));
  } catch (const UsageError& error) {
    throw UsageError(flag + ": " + error.what());
  }
}

Sides prepare_sides(const Options& options) {
  const DuelOptions& duel = options.duel;
  if (duel.base.empty() && duel.now.empty() && duel.base_plugins.empty() && duel.new_plugins.empty())
    throw UsageError(
        "duel needs two builds: " + to_type("duel --base PROGRAM|DIR --new PROGRAM|DIR") + " (or --base-plugin, --new-plugin)");
  return {prepare_side(options, duel.base, duel.base_plugins, "--base"),
          prepare_side(options, duel.now, duel.new_plugins, "--new")};
}

std::vector<std::string> ids_without(const Plan& plan, const Plan& other) {
  std::vector<std::string> ids;
  for (const CaseSpec& spec : plan.cases)
    if (std::none_of(other.cases.begin(), other.cases.end(), [&](const CaseSpec& its) { return its.id == spec.id; }))
      ids.push_back(spec.id);
  return ids;
}

DuelBuild build_of(const Prepared& side) {
  return {.worker = side.worker, .torch = side.catalogue.torch, .plugins = side.options.what.plugins};
}

DuelReport new_duel_report(const Sides& sides) {
  const Options& options = sides.base.options;
  DuelReport report;
  // Anew for each: what happens to go with one sequence must not look like a difference every time.
  report.order_seed = 1 + int64_t{std::random_device{}()};
  report.tool = tool_block(options.argv);
  report.env = environment(this_machine(), sides.base.gpus.accelerators, versions_of(sides.base.catalogue));
  report.config = options_json(options);
  report.config["pairs_per_launch"] = options.duel.pairs_per_launch;
  report.base = build_of(sides.base);
  report.now = build_of(sides.now);
  if (options.duel.pairs > 0) report.rule.looks = {options.duel.pairs};
  report.gone = ids_without(sides.base.plan, sides.now.plan);
  report.added = ids_without(sides.now.plan, sides.base.plan);
  for (const CaseSpec& spec : sides.base.plan.cases)
    if (std::find(report.gone.begin(), report.gone.end(), spec.id) == report.gone.end())
      report.cases.push_back({.spec = spec});
  if (report.cases.empty()) throw UsageError("nothing to compare: no case of the one build is in the other");
  return report;
}

std::string output_of(const DuelReport& report, const Options& options) {
  const std::string summary = duel_summary(report) + "\n";
  if (options.output == "json") return to_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (options.output == "markdown") return as_markdown(duel_rows(report)) + "\n" + summary;
  if (options.output == "none") return "";
  auto rows = duel_rows(report);
  for (auto& row : rows)
    for (auto& cell : row) cell = one_line(cell, 160);
  return aligned(rows, duel_columns_right()) + summary;
}

bool try_save(const RunDirectory& directory, const DuelReport& report, ProgressLine& progress, bool say) {
  try {
    directory.save("duel", to_json(report));
    return true;
  } catch (const WriteError& error) {
    if (say) progress.error(error.what());
    return false;
  }
}

SessionEnding measure(const Sides& sides, const RunDirectory& directory, DuelReport& report, ProgressLine& progress) {
  const Signals signals;
  const Scratch base_scratch, new_scratch;
  const auto say = [&](const std::string& text) { progress.note(text); };
  Launcher base_launcher(worker_settings(sides.base, directory.path() / "logs/base"), base_scratch, signals, say);
  Launcher new_launcher(worker_settings(sides.now, directory.path() / "logs/new"), new_scratch, signals, say);
  WorkerRunner base(base_launcher, signals, "ran"), now(new_launcher, signals, "ran");
  double next_save = 0;
  const auto save = [&] {
    if (monotonic_seconds() < next_save) return;
    try_save(directory, report, progress, false);
    next_save = monotonic_seconds() + 1;
  };
  return DuelSession(sides.base.options, report, base, now, progress, save).run();
}

bool nothing_measured(const DuelReport& report) {
  return std::all_of(report.cases.begin(), report.cases.end(),
                     [](const DuelCase& record) { return log_ratios(record).empty(); });
}

int run_duel(const Sides& sides) {
  const Options& options = sides.base.options;
  DuelReport report = new_duel_report(sides);
  RunDirectory directory(options.out_dir,
                         run_id(std::chrono::system_clock::now(), run_commit(report.tool), machine_label(report.env)));
  report.id = directory.id();
  const fs::path file = directory.path() / "duel.json";
  ProgressLine progress(progress_style(options, ::isatty(STDERR_FILENO), std::getenv("TERM")), options.verbose,
                        static_cast<int>(report.cases.size()), monotonic_seconds());
  for (const auto& warning : environment_warnings(report.env)) progress.warning(warning);
  try_save(directory, report, progress, true);  // that it cannot be is said before anything is measured
  const SessionEnding ended = measure(sides, directory, report, progress);
  std::error_code ignored;
  for (const char* logs : {"logs/base", "logs/new", "logs"}) fs::remove(directory.path() / logs, ignored);  // if empty
  if (!ended.usage.empty() && nothing_measured(report)) {
    directory.drop();
    throw UsageError(one_line(ended.usage, 400));
  }
  const bool saved = try_save(directory, report, progress, true);
  for (const DuelCase& record : report.cases)
    if (record.status == "failed" || record.status == "wrong")
      progress.warning(record.spec.id + " " + record.status + ": " + record.reason);
  const bool printed = print(output_of(report, options));
  const bool unclear = report.inconclusive();
  const int code = exit_code({.usage = !ended.usage.empty() || report.count("unmeasured") == report.cases.size(),
                              .unsaved = !printed || !saved,
                              .failed = report.count("failed") > 0,
                              .wrong = report.count("wrong") + report.count(Verdict::slower) > 0,
                              .inconclusive = options.stored.strict && unclear,
                              .unavailable = report.count("skipped") == report.cases.size(),
                              .signal = ended.signal});
  const std::string last =
      (saved ? "Saved " : "NOT saved: ") + file.string() + (code ? "; exit " + std::to_string(code) : "");
  saved ? progress.warning(last) : progress.error(last);
  return code;
}

}  // namespace

int duel_command(const Options& options) {
  const Sides sides = prepare_sides(options);
  return options.dry_run ? print_plan(sides.now) : run_duel(sides);
}

}  // namespace dpbench
