// dpbench advise: prints which strategy of a stored run is fastest, which needs the least memory, and why.
#include <string>
#include <vector>

#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/run/table.h"
#include "harness/front/text/print.h"
#include "harness/report/answer/answer.h"
#include "harness/report/answer/answer_output.h"
#include "harness/report/record/codec.h"
#include "harness/report/record/find_run.h"
#include "harness/report/text/shell.h"
#include "harness/report/validate/validate.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

struct AdviseOptions {
  StoredRuns stored;
  Form output = Form::table;
};

void add_flags(CLI::App& app, AdviseOptions& o) {
  add_runs(app, o.stored,
           "the run: a run.json, a run's or results directory,\nlatest, latest~1, a baseline's name [latest]");
  add_output(app, o.output, {Form::table, Form::markdown, Form::json});
}

std::string output_of(const Report& report, const Answer& answer, Form form) {
  if (form == Form::json)
    return json_text({{"schema", "dpbench.answer"},
                      {"schema_version", {{"major", 1}, {"minor", 0}}},
                      {"id", report.id},
                      {"answer", write_value(answer)}});
  return answer_text(answer, form);
}

int advise(const AdviseOptions& options) {
  const auto& [runs, results] = options.stored;
  if (runs.size() > 1) throw UsageError("advise takes one run: " + shell_command("advise RUN"));
  const Report report = read_consistent_report(find_run(runs.empty() ? "latest" : runs[0], results));
  const Answer answer = answer_of(report);
  return exit_code(
      {.unsaved = !print(output_of(report, answer, options.output)), .inconclusive = !compares_any(answer)});
}

}  // namespace

Command advise_command() {
  return reading_command({.name = "advise",
                          .arguments = "[RUN] [FLAGS]",
                          .summary = "say which strategy of a stored run is fastest or smallest, and why",
                          .examples = {{"advise latest", "the answer of the last run"},
                                       {"advise main -o markdown", "of a saved baseline, for a pull request"}},
                          .exit_codes = {4}},
                         add_flags, advise);
}

}  // namespace dpbench
