// Flags of the commands that only read: the registries, the machine, stored runs.
#include "harness/front/flags.h"
#include "harness/front/validators.h"

namespace dpbench {
namespace {

void add_runs(CLI::App& app, Options& o, const std::string& help) {
  app.add_option("runs", o.stored.runs, help)->type_name("RUN");
  app.add_option("--results", o.stored.results, "directory that 'latest' and baselines are looked for in [results]")
      ->type_name("DIR");
}

}  // namespace

void add_list(CLI::App& app, Options& o) {
  app.add_option("topic", o.topic, "strategies, workloads, backends, devices, or the name of one")->type_name("TOPIC");
  app.add_option("--plugin", o.what.plugins, "shared library to list as well (it runs code); repeatable")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("-o,--output", o.output, "form on stdout [table]")
      ->check(one_of({"table", "json"}))
      ->type_name("table|json");
}

void add_compare(CLI::App& app, Options& o) {
  add_runs(app, o, "base, then new: a run.json, a run's or results directory, latest,\nlatest~1, a baseline's name");
  const auto put = [](CLI::Option* option, const char* type) { option->group("Gate")->type_name(type); };
  put(add_values(app, "--fail-on", o.stored.fail_on,
               "median, p99, throughput, peak-memory, ratio-to-baseline: percent;\nefficiency: points [median:5%]"),
      "FIGURE:LIMIT,..");
  put(app.add_option("--gate", o.stored.gate, "rules per case, as JSON"), "FILE");
  put(app.add_flag("--strict", o.stored.strict, "exit 4 when a case is unclear"), "");
  put(app.add_flag("--require-baseline", o.stored.require_baseline, "a base that was never saved is an error"), "");
  put(app.add_flag("--allow-env-diff", o.stored.allow_env_diff,
                   "compare unlike machines or configurations all the same"),
      "");
  put(app.add_option("--annotations", o.stored.annotations, "lines for GitHub's pages, on stderr [auto]")
          ->check(one_of({"auto", "github", "none"})),
      "auto|github|none");
  app.add_option("-o,--output", o.output, "form on stdout [table]")
      ->check(one_of({"table", "markdown", "json"}))
      ->type_name("table|markdown|json");
}

void add_project(CLI::App& app, Options& o) {
  add_runs(app, o, "the run with three worlds or more to project from [latest]");
  ProjectOptions& p = o.project;
  const auto put = [](CLI::Option* option, const char* type) { option->group("Projection")->type_name(type); };
  put(add_values(app, "--to", p.to, "the worlds to work out")->check(each(between(1, 1 << 20))), "N,..");
  put(add_values(app, "--from", p.from, "the worlds to fit; others are compared with [all]")
          ->check(each(between(1, 1 << 20))),
      "N,..");
  put(app.add_option("--link", p.link, "intra=450GB/s:2us,inter=50GB/s:10us: of one device [as fitted]")
          ->check([](const std::string& text) { return text.empty() ? "'' is no link" : ""; }),
      "NAME=RATE:LATENCY,..");
  put(app.add_option("--hosts", p.hosts, "hosts have so many devices each; intra is inside, inter between them")
          ->check(between(1, 1 << 20)),
      "N");
  put(app.add_option("--algorithm", p.algorithm, "of allreduces [the fastest; as fitted, the ring]")
          ->check(one_of({"auto", "ring", "tree", "hierarchical"})),
      "auto|ring|tree|hierarchical");
  put(app.add_option("--filter", p.filter, "only cases whose id matches")->check(regular_expression()), "RE");
  app.add_option("-o,--output", o.output, "form on stdout [table]")
      ->check(one_of({"table", "markdown", "json"}))
      ->type_name("table|markdown|json");
}

void add_export(CLI::App& app, Options& o) {
  add_runs(app, o, "the run to export [latest]");
  app.add_option("--to", o.stored.to, "the form: Google Benchmark's JSON, JUnit XML, CSV or Markdown")
      ->check(one_of({"gbench", "junit", "csv", "markdown"}))
      ->type_name("gbench|junit|csv|markdown");
}

void add_report(CLI::App& app, Options& o) {
  add_runs(app, o, "the runs to show [latest]");
  const auto put = [](CLI::Option* option, const char* type) { option->group("Page and charts")->type_name(type); };
  put(app.add_option("--html", o.stored.html, "one page with charts and tables, that needs no network"), "FILE");
  put(app.add_option("--charts", o.stored.charts, "each chart as SVG and PNG"), "DIR");
  put(app.add_option("--collectives", o.stored.collectives,
                     "what the micro-benchmark measured (its JSON), to be shown"),
      "FILE");
  put(app.add_option("--projection", o.stored.projection, "what `project -o json` worked out from a run, to be shown"),
      "FILE");
}

void add_validate(CLI::App& app, Options& o) { add_runs(app, o, "the reports to read and to work out again"); }

void add_env(CLI::App& app, Options& o) {
  app.add_option("-o,--output", o.output, "form on stdout [table]")
      ->check(one_of({"table", "json"}))
      ->type_name("table|json");
}

}  // namespace dpbench
