// dpbench project: extrapolates a stored run to world sizes larger than this machine.
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "harness/forecast/project/projection.h"
#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/run/table.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/record/find_run.h"
#include "harness/report/text/shell.h"
#include "harness/report/validate/validate.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

constexpr char disclaimer[] =
    "PROJECTION, not measured: a model of computation overlapped with collectives. It leaves out stragglers, other "
    "traffic on the links, switches and memory limits; the intervals cover only the fit.\n";

struct ProjectOptions {
  StoredRuns stored;
  std::vector<int> to, from;
  std::string link, filter;
  std::optional<Algorithm> algorithm;  // allreduce algorithm to assume; unset: the ring, with --link the fastest
  int hosts = 0;                       // value of --hosts, the number of devices per host; 0: flag not given
  Form output = Form::table;
};

void add_algorithm(CLI::App& app, std::optional<Algorithm>& algorithm) {
  std::vector<std::string> words = names_list<Algorithm>();
  words.insert(words.begin(), "auto");
  const std::function<void(const std::string&)> take = [&algorithm](const std::string& word) {
    algorithm = parse_name<Algorithm>(word);
  };
  app.add_option_function("--algorithm", take, "of allreduces [the fastest; as fitted, the ring]")
      ->check(one_of(words))
      ->group("Projection")
      ->type_name(join(words, "|"));
}

void add_flags(CLI::App& app, ProjectOptions& o) {
  add_runs(app, o.stored, "the run with three worlds or more to project from [latest]");
  const auto grouped = in_group("Projection");
  grouped(add_values(app, "--to", o.to, "the worlds to project to, as in 8,16,32,..,512")
              ->check(each(between(1, 1 << 20)))
              ->transform(ranges()),
          "N,..");
  grouped(add_values(app, "--from", o.from, "the worlds to fit; the others are used to check the fit [all]")
              ->check(each(between(1, 1 << 20)))
              ->transform(ranges()),
          "N,..");
  grouped(app.add_option("--link", o.link, "intra=450GB/s:2us,inter=50GB/s:10us, per device [as fitted]")
              ->check([](const std::string& text) { return text.empty() ? "'' is no link" : ""; }),
          "NAME=RATE:LATENCY,..");
  grouped(app.add_option("--hosts", o.hosts, "devices per host; intra links are within, inter links between hosts")
              ->check(between(1, 1 << 20)),
          "N");
  add_algorithm(app, o.algorithm);
  grouped(app.add_option("--filter", o.filter, "only cases with a match in the id; a regular expression (RE2)")
              ->check(regular_expression()),
          "RE");
  add_output(app, o.output, {Form::table, Form::markdown, Form::json});
}

ProjectionRequest request_of(const ProjectOptions& options) {
  if (options.to.empty())
    throw UsageError("project needs --to N,.., the worlds to project to, for example: " +
                     shell_command("project latest --to 8,64,512"));
  ProjectionRequest request{
      .to = options.to, .algorithm = options.algorithm, .from = options.from, .filter = options.filter};
  if (!options.link.empty())
    request.network = parse_network(options.link, options.hosts);
  else if (options.hosts > 0)
    throw UsageError("--hosts " + std::to_string(options.hosts) +
                     " needs --link intra=..,inter=.., the links within and between hosts");
  if (request.algorithm == Algorithm::hierarchical && (!request.network || request.network->host_size == 0))
    throw UsageError("--algorithm hierarchical needs --link with inter and --hosts N");
  return request;
}

std::string output_of(const Projection& projection, Form form) {
  if (form == Form::json) return json_text(to_json(projection));
  const bool markdown = form == Form::markdown;
  std::string text;
  for (const ProjectedSeries& series : projection.series) {
    const auto rows = projection_rows(series);
    if (markdown)
      text += "**" + one_line(projection_heading(series), 300) + "**\n\n" + as_markdown(rows) + "\n";
    else
      text += folded(one_line(projection_heading(series), 300) + "\n") + aligned(rows, projection_columns_right());
    for (const auto& remark : projection_remarks(series))
      text += markdown ? "- " + one_line(remark, 400) + "\n" : folded("  " + one_line(remark, 400) + "\n");
    text += "\n";
  }
  return text + (markdown ? disclaimer : folded(disclaimer));
}

int project_run(const ProjectOptions& options) {
  const auto& [runs, results] = options.stored;
  if (runs.size() > 1) throw UsageError("project takes one run: " + shell_command("project RUN --to 8,64"));
  const ProjectionRequest request = request_of(options);
  const std::string run = runs.empty() ? "latest" : runs[0];
  const Report report = read_consistent_report(find_run(run, results));
  const Projection projection = project(report, request);
  for (const auto& note : projection.left_out) std::cerr << "dpbench: left out: " << one_line(note, 400) << '\n';
  return exit_code({.unsaved = !print(output_of(projection, options.output))});
}

}  // namespace

Command project_command() {
  return reading_command(
      {.name = "project",
       .arguments = "[RUN] --to N,.. [FLAGS]",
       .summary = "extrapolate a stored run to larger worlds",
       .examples = {{"project latest --to 8,64,512", "on the link that the run had"},
                    {"project latest --to 64 --hosts 8 --link intra=450GB/s:2us,inter=50GB/s:10us", ""}},
       .exit_codes = {}},
      add_flags, project_run);
}

}  // namespace dpbench
