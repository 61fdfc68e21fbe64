// dpbench check: the conformance suite over the cases of a plan. Nothing is timed and no run is saved.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>

#include "harness/front/check_files.h"
#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/prepare.h"
#include "harness/front/table.h"
#include "harness/front/text.h"
#include "harness/report/export.h"
#include "harness/report/save.h"
#include "harness/report/tool.h"
#include "workloads/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

Json check_message(const Options& options) {
  const CheckOptions& checking = options.checking;
  return {{"do", "check"},
          {"filter", checking.filter},
          {"seeds", checking.seeds},
          {"whole_worlds", options.what.whole_worlds},
          {"dump", checking.dump.empty() ? "" : fs::absolute(checking.dump).string()}};
}

std::string number(std::optional<double> value) {
  if (!value) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", *value);
  return text;
}

std::vector<Cells> rows_of(const Report& report) {
  std::vector<Cells> rows = {{"CASE", "CHECK", "STATUS", "ERROR", "BOUND", "COMPARED", "DETAIL"}};
  for (const auto& record : report.cases) {
    for (const auto& row : record.checks) {
      const std::string likely = row.likely.empty() ? "" : " · looks like: " + row.likely;
      rows.push_back({record.spec.id, row.name, row.status, number(row.error), number(row.bound), row.compared,
                      one_line(row.detail + likely, 300)});
    }
    if (record.status == "failed" || record.status == "skipped")
      rows.push_back({record.spec.id, "-", record.status, "-", "-", "-", one_line(record.reason, 300)});
  }
  for (auto& row : rows)
    for (auto& cell : row) cell = one_line(cell, 300);
  return rows;
}

// A case, its checks one a line, and below them what was expected and found where one failed.
std::string section_of(const CaseRecord& record) {
  std::string text = record.spec.id + "\n", below;
  std::vector<Cells> rows = {{"", "CHECK", "STATUS", "ERROR", "BOUND", "COMPARED"}};
  for (const auto& row : record.checks) {
    rows.push_back({"", one_line(row.name, 60), row.status, number(row.error), number(row.bound),
                    one_line(row.compared + (row.status == "skipped" ? ": " + row.detail : ""), 200)});
    if (row.status == "failed")
      below += "  " + row.name + ": " + one_line(row.detail, 400) + "\n" +
               (row.likely.empty() ? "" : "    looks like: " + one_line(row.likely, 300) + "\n");
  }
  if (rows.size() > 1) text += aligned(rows, {false, false, false, true, true, false});
  if (record.status == "failed" || record.status == "skipped")
    below += "  " + record.status + ": " + one_line(record.reason, 400) + "\n";
  return text + below;
}

std::string table_of(const Report& report) {
  std::string text;
  for (const auto& record : report.cases) text += (text.empty() ? "" : "\n") + section_of(record);
  return text;
}

int count(const Report& report, const std::string& status) {
  int found = 0;
  for (const auto& record : report.cases)
    found += static_cast<int>(std::count_if(record.checks.begin(), record.checks.end(),
                                            [&](const CheckRow& row) { return row.status == status; }));
  return found;
}

std::string summary_of(const Report& report) {
  return std::to_string(count(report, "passed")) + " checks passed, " + std::to_string(count(report, "failed")) +
         " failed, " + std::to_string(count(report, "skipped")) + " skipped, over " +
         std::to_string(report.cases.size()) + " cases";
}

std::string output_of(const Report& report, const Options& options) {
  if (options.output == "json") return to_json(report).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (options.output == "csv") return as_csv(rows_of(report));
  if (options.output == "markdown") return as_markdown(rows_of(report));
  if (options.output == "none") return "";
  return table_of(report);
}

SessionEnding carry_out(const Prepared& prepared, Report& report, ProgressLine& progress) {
  const Signals signals;
  const Scratch scratch;
  Launcher launcher(worker_settings(prepared, scratch.path() / "logs"), scratch, signals,
                    [&](const std::string& text) { progress.note(text); });
  WorkerRunner runner(launcher, signals, "checked");
  const auto command = [&](int) { return check_message(prepared.options); };
  return Session(prepared.options, report, prepared.plan.cases.size(), runner, progress, command, [](const Report&) {})
      .run();
}

// Nothing judged is not a pass.
Ending ending_of_checks(const Report& report, const SessionEnding& ended) {
  Ending ending = ending_of(report);
  ending.signal = ended.signal;
  if (count(report, "passed") + count(report, "failed") == 0) ending.unavailable = true;
  return ending;
}

int check_prepared(const Prepared& prepared) {
  const Options& options = prepared.options;
  const JunitFile junit(options.checking.junit);
  const DumpDirectory dump(options.checking.dump);
  Report report = new_report(prepared);
  report.id = run_id(std::chrono::system_clock::now(), run_commit(report.tool), machine_label(report.env));
  ProgressLine progress(progress_style(options, ::isatty(STDERR_FILENO), std::getenv("TERM")), options.verbose,
                        static_cast<int>(prepared.plan.cases.size()), monotonic_seconds());
  for (const auto& warning : unlike_hosts(report.env)) progress.later(warning);
  const SessionEnding ended = carry_out(prepared, report, progress);
  if (!ended.usage.empty()) throw UsageError(one_line(ended.usage, 400));
  const bool empty = count(report, "passed") + count(report, "failed") + count(report, "skipped") == 0;
  if (empty && !options.checking.filter.empty() && !ended.signal && !ending_of(report).failed)
    throw UsageError("no check matched --filter '" + one_line(options.checking.filter, 100) + "'");
  Ending ending = ending_of_checks(report, ended);
  ending.unsaved = !print(output_of(report, options));
  if (const std::string why = junit.write(junit_xml(report)); !why.empty()) {
    ending.unsaved = true;
    progress.warning(why);
  }
  for (const auto& record : report.cases)
    if (record.status == "failed") progress.warning(record.spec.id + " failed: " + record.reason);
  const int code = exit_code(ending);
  progress.warning(summary_of(report) + (code ? "; exit " + std::to_string(code) : ""));
  return code;
}

}  // namespace

int check_command(const Options& options) {
  Prepared prepared = prepare(options);
  if (options.dry_run) return print_plan(prepared);
  return check_prepared(prepared);
}

}  // namespace dpbench
