// dpbench export, validate and schema: convert and validate stored reports, and print the JSON Schemas of documents.
#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "harness/forecast/plan/layout_plan.h"
#include "harness/forecast/project/projection.h"
#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/run/columns.h"
#include "harness/front/run/table.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/export/export.h"
#include "harness/report/record/find_run.h"
#include "harness/report/text/shell.h"
#include "harness/report/validate/duel_validate.h"
#include "harness/report/validate/schema.h"
#include "harness/report/validate/validate.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr size_t max_problems = 10;  // limit on the validation problems printed per report

struct ExportForm {
  std::string name;
  std::string (*text)(const Report&, const TableView&);
  bool viewed;  // true: --columns and --sort apply to this format of `dpbench export`
};

const std::vector<ExportForm>& export_forms() {
  static const std::vector<ExportForm> forms = {
      {"gbench", [](const Report& report, const TableView&) { return gbench_json(report); }, false},
      {"junit", [](const Report& report, const TableView&) { return junit_xml(report); }, false},
      {"csv", report_csv, true},
      {"markdown", report_markdown, true},
      {"table", [](const Report& report, const TableView& view) { return report_table(report, false, view); }, true}};
  return forms;
}

struct ExportOptions {
  StoredRuns stored;
  std::string to;  // name of the export format (ExportForm)
  TableView view;
};

void add_flags(CLI::App& app, ExportOptions& o) {
  add_runs(app, o.stored, "the run to export [latest]");
  app.add_option("--to", o.to, "Google Benchmark's JSON, JUnit XML, CSV, Markdown or a table")
      ->check(one_of(names_of(export_forms())))
      ->type_name(join(names_of(export_forms()), "|"));
  add_view(app, o.view);
}

std::vector<std::string> parameters_of(const Report& report) {
  std::set<std::string> names;
  for (const auto& [strategy, defaults] : report.defaults)
    for (const auto& [name, value] : defaults) names.insert(name);
  for (const CaseRecord& record : report.cases)
    for (const auto& [name, value] : record.spec.params) names.insert(name);
  return {names.begin(), names.end()};
}

int export_run(const ExportOptions& options) {
  const auto& [runs, results] = options.stored;
  const ExportForm* form = find_entry(export_forms(), options.to);
  if (!form) throw UsageError("export needs --to gbench, junit, csv, markdown or table");
  if (runs.size() > 1) throw UsageError("export takes one run: " + shell_command("export RUN --to " + options.to));
  if (!form->viewed && !(options.view.columns.empty() && options.view.sort.empty()))
    throw UsageError("--columns and --sort are for --to csv, markdown and table");
  const Report report = read_report(find_run(runs.empty() ? "latest" : runs[0], results));
  check_view(options.view, parameters_of(report));
  return exit_code({.unsaved = !print(form->text(report, options.view))});
}

struct Document {
  std::string name;
  std::string (*text)();
};

template <Json (*schema)()>
std::string schema_text() {
  return schema().dump(1) + "\n";
}

const std::vector<Document>& documents() {
  static const std::vector<Document> all = {{"run", schema_text<run_schema>},
                                            {"duel", schema_text<duel_schema>},
                                            {"compare", schema_text<compare_schema>},
                                            {"projection", schema_text<projection_schema>},
                                            {"plan", schema_text<forecast::plan_schema>},
                                            // The schema `tune` is that of run.json, because `dpbench tune` writes its
                                            // results in this format.
                                            {"tune", schema_text<run_schema>},
                                            {"glossary", glossary}};
  return all;
}

struct SchemaOptions {
  std::string document = documents()[0].name;
};

void add_flags(CLI::App& app, SchemaOptions& o) {
  app.add_option("document", o.document, "the document to describe; glossary: the keys of run.json\n[run]")
      ->check(one_of(names_of(documents())))
      ->type_name(join(names_of(documents()), "|"));
}

int print_schema(const SchemaOptions& options) {
  return exit_code({.unsaved = !print(find_entry(documents(), options.document)->text())});
}

std::vector<std::string> problems_in(const Json& document) {
  const bool duel = document.is_object() && document.value("schema", "") == duel_document;
  return duel ? duel_problems_of(document) : problems_of(document);
}

void add_flags(CLI::App& app, StoredRuns& o) { add_runs(app, o, "the reports to read and recompute"); }

int validate(const StoredRuns& options) {
  if (options.runs.empty()) throw UsageError("validate needs a report: " + shell_command("validate FILE"));
  bool sound = true, printed = true;
  for (const auto& run : options.runs) {
    const auto file = find_run(run, options.results);
    const Json document = read_document(file);
    const auto problems = name_file_in_errors(file, [&] { return problems_in(document); });
    const auto report_problem = [&](const std::string& problem) {
      std::cerr << "dpbench: " << one_line(file.string() + ": " + problem, 1000) << '\n';
    };
    for (size_t i = 0; i < std::min(problems.size(), max_problems); ++i) report_problem(problems[i]);
    if (problems.size() > max_problems)
      report_problem("and " + std::to_string(problems.size() - max_problems) + " more");
    sound = sound && problems.empty();
    if (problems.empty())
      printed &= print(sanitised(file.string()) + ": valid, " + std::to_string(document.at("cases").size()) +
                       " cases, " + document.at("status").get<std::string>() + "\n");
  }
  return exit_code({.unsaved = !printed, .wrong = !sound});
}

}  // namespace

Command export_command() {
  return reading_command({.name = "export",
                          .arguments = "[RUN] --to FORM [FLAGS]",
                          .summary = "convert a stored run to the format of another tool",
                          .examples = {{"export latest --to csv > run.csv", "a table for a spreadsheet"},
                                       {"export latest --to table --columns strategy,step,memory --sort step", ""},
                                       {"export latest --to junit > junit.xml", "checks and cases for a CI page"}},
                          .exit_codes = {}},
                         add_flags, export_run);
}

Command schema_command() {
  return reading_command(
      {.name = "schema",
       .arguments = "[DOCUMENT] [FLAGS]",
       .summary = "print the JSON Schema of a document that dpbench writes, or the glossary of run.json",
       .examples = {{"schema run > run.schema.json", "run.json's schema"},
                    {"schema compare", "the schema of compare -o json"},
                    {"schema glossary", "each key with its unit and meaning"}},
       .exit_codes = {}},
      add_flags, print_schema);
}

Command validate_command() {
  return reading_command({.name = "validate",
                          .arguments = "RUN.. [FLAGS]",
                          .summary = "check that reports are complete and consistent",
                          .examples = {{"validate latest", "recompute every figure of the last run"},
                                       {"validate results/*/run.json", "all stored runs"}},
                          .exit_codes = {1}},
                         add_flags, validate);
}

}  // namespace dpbench
