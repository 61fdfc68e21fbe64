// dpbench export and dpbench validate: stored reports in other forms, and whether they hold together.
#include <algorithm>
#include <iostream>
#include <map>

#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/table.h"
#include "harness/front/text.h"
#include "harness/report/duel_validate.h"
#include "harness/report/export.h"
#include "harness/report/find_run.h"
#include "harness/report/to_type.h"
#include "harness/report/validate.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

constexpr size_t kMostProblems = 10;  // said of one report

std::vector<std::string> problems_in(const Json& document) {
  const bool duel = document.is_object() && document.value("schema", "") == "dpbench.duel";
  return duel ? duel_problems_of(document) : problems_of(document);
}

}  // namespace

int export_command(const Options& options) {
  static const std::map<std::string, std::string (*)(const Report&)> forms = {
      {"gbench", gbench_json}, {"junit", junit_xml}, {"csv", report_csv}, {"markdown", report_markdown}};
  const StoredRuns& asked = options.stored;
  const auto form = forms.find(asked.to);
  if (form == forms.end()) throw UsageError("export needs --to gbench, junit, csv or markdown");
  if (asked.runs.size() > 1) throw UsageError("export takes one run: " + to_type("export RUN --to " + asked.to));
  const std::string run = asked.runs.empty() ? "latest" : asked.runs[0];
  return exit_code({.unsaved = !print(form->second(read_report(find_run(run, asked.results))))});
}

int validate_command(const Options& options) {
  const StoredRuns& asked = options.stored;
  if (asked.runs.empty()) throw UsageError("validate needs a report: " + to_type("validate FILE"));
  bool sound = true, printed = true;
  for (const auto& run : asked.runs) {
    const auto file = find_run(run, asked.results);
    const Json document = read_document(file);
    const auto problems = said_of(file, [&] { return problems_in(document); });
    const auto say = [&](const std::string& what) {
      std::cerr << "dpbench: " << one_line(file.string() + ": " + what, 1000) << '\n';
    };
    for (size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i) say(problems[i]);
    if (problems.size() > kMostProblems) say("and " + std::to_string(problems.size() - kMostProblems) + " more");
    sound = sound && problems.empty();
    if (problems.empty())
      printed &= print(sanitised(file.string()) + ": valid, " + std::to_string(document.at("cases").size()) +
                       " cases, " + document.at("status").get<std::string>() + "\n");
  }
  return exit_code({.unsaved = !printed, .wrong = !sound});
}

}  // namespace dpbench
