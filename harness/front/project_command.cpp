// dpbench project: worlds beyond this machine, worked out from a stored run.
#include <iostream>
#include <map>

#include "harness/front/commands.h"
#include "harness/front/exit_code.h"
#include "harness/front/table.h"
#include "harness/front/text.h"
#include "harness/report/find_run.h"
#include "harness/report/projection.h"
#include "harness/report/to_type.h"
#include "harness/report/validate.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

constexpr char not_in_it[] =
    "PROJECTION: a step as computing with collectives beside it, none of it measured. Not in it: stragglers, other "
    "traffic on "
    "the links, switches, memory limits; the intervals are those of the fit alone.\n";

ProjectionAsked asked_of(const ProjectOptions& options) {
  static const std::map<std::string, std::optional<Algorithm>> algorithms = {{"auto", std::nullopt},
                                                                             {"ring", Algorithm::ring},
                                                                             {"tree", Algorithm::tree},
                                                                             {"hierarchical", Algorithm::hierarchical}};
  if (options.to.empty())
    throw UsageError("project needs --to N,..: the worlds to work out, as in: " + to_type("project latest --to 8,64,512"));
  ProjectionAsked asked{
      .to = options.to, .algorithm = algorithms.at(options.algorithm), .from = options.from, .filter = options.filter};
  if (!options.link.empty())
    asked.network = parse_network(options.link, options.hosts);
  else if (options.hosts > 0)
    throw UsageError("--hosts " + std::to_string(options.hosts) +
                     " needs --link intra=..,inter=..: what connects devices and hosts");
  if (asked.algorithm == Algorithm::hierarchical && (!asked.network || asked.network->host_size == 0))
    throw UsageError("--algorithm hierarchical needs --link with inter and --hosts N");
  return asked;
}

std::string output_of(const Projection& projection, const std::string& form) {
  if (form == "json") return to_json(projection).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string text;
  for (const ProjectedSeries& series : projection.series) {
    const auto rows = projection_rows(series);
    if (form == "markdown")
      text += "**" + one_line(projection_heading(series), 300) + "**\n\n" + as_markdown(rows) + "\n";
    else
      text += one_line(projection_heading(series), 300) + "\n" + aligned(rows, projection_columns_right());
    for (const auto& remark : projection_remarks(series))
      text += (form == "markdown" ? "- " : "  ") + one_line(remark, 400) + "\n";
    text += "\n";
  }
  return text + not_in_it;
}

}  // namespace

int project_command(const Options& options) {
  const StoredRuns& stored = options.stored;
  if (stored.runs.size() > 1) throw UsageError("project takes one run: " + to_type("project RUN --to 8,64"));
  const ProjectionAsked asked = asked_of(options.project);
  const std::string run = stored.runs.empty() ? "latest" : stored.runs[0];
  const Report report = read_sound_report(find_run(run, stored.results));
  const Projection projection = project(report, asked);
  for (const auto& note : projection.left_out) std::cerr << "dpbench: left out: " << one_line(note, 400) << '\n';
  return exit_code({.unsaved = !print(output_of(projection, options.output))});
}

}  // namespace dpbench
