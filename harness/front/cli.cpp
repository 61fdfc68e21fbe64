#include "harness/front/cli.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>

#include <CLI/CLI.hpp>

#include "harness/front/text.h"
#include "harness/front/training_flags.h"
#include "harness/front/validators.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

constexpr uintmax_t kLargestConfig = 1 << 20;

constexpr char kExamples[] = R"(Examples:
  dpbench                                         everything this machine can run, worlds 1 and 2, quickly
  dpbench --strategy ddp --gpus 1,2,4,8           scaling of one strategy over GPUs
  dpbench --strategy dp,ddp --cpus 1,2 --workload mnist-mlp --scaling strong --batch 512
  dpbench --strategy ddp --cpus 2 --param ddp.bucket_mb=1,25 -o markdown
  dpbench --plugin ./my_strategy.so --strategy mine --cpus 2
  dpbench report latest --html report.html        its charts and tables on one page)";

constexpr char kExitCodes[] = R"(Exit codes:
  0 ok · 1 a check failed · 2 wrong arguments, files or directories, or nothing matched · 3 a run failed (a rank died,
  hung, ran out of memory, NaN) · 5 the report could not be written · 77 no such GPU or backend here · 128+N signal N

Variables:
  DPBENCH_WORKER (the worker to use) · DPBENCH_PYTHON (one with matplotlib, for report) · TMPDIR (private files, when
  /dev/shm is short) · CUDA_VISIBLE_DEVICES · NO_COLOR)";

using Filler = void (*)(CLI::App&, Options&);

// One argument a flag, its commas between values.
template <class List>
CLI::Option* add_list(CLI::App& app, const std::string& names, List& values, const std::string& help) {
  return app.add_option(names, values, help)->delimiter(',')->allow_extra_args(false);
}

void add_what(CLI::App& app, Options& o) {
  Selection& what = o.what;
  const auto put = [](CLI::Option* option, const char* type) { option->group("What to run")->type_name(type); };
  put(add_list(app, "--strategy", what.strategies, "strategies to run [all]"), "NAME,..");
  put(add_list(app, "--workload", what.workloads, "workloads to train [all]"), "NAME,..");
  put(add_list(app, "--gpus", what.gpus, "worlds of so many GPUs [all there are]")->check(between(1, kMaxWorld)),
      "N,..");
  put(add_list(app, "--cpus", what.cpus, "worlds of so many virtual CPU devices [1,2 without a GPU]")
          ->check(between(1, kMaxWorld)),
      "N,..");
  put(add_list(app, "--batch", what.batches, "rows per device (weak) or in all (strong) [the workload's]")
          ->check(between(1, 1 << 30)),
      "N,..");
  put(app.add_option("--scaling", what.scaling, "what --batch counts [the workload's]")
          ->check(one_of({"strong", "weak"})),
      "strong|weak");
  put(add_list(app, "--dtype", what.dtypes, "precision; bf16 is autocast over float32 [f32]")
          ->check(one_of({"f32", "f64", "bf16"})),
      "f32|f64|bf16");
  put(add_list(app, "--backend", what.backends, "what collectives run on [auto]"), "auto|NAME,..");
  put(app.add_option("--param", what.params, "a strategy's parameter; several values are an axis; repeatable")
          ->allow_extra_args(false),
      "[STRATEGY.]KEY=V,..");
  put(app.add_option("--scale", what.scale, "makes the models wider and deeper [1]")->check(between(1, 1024)), "K");
  put(app.add_option("--accumulate", what.accumulate, "micro-batches of a step [1]")->check(between(1, 65536)), "K");
  put(app.add_option("--clip-norm", what.clip_norm, "limit on the gradient's global norm [none]")
          ->check(between(0, 1e30, true)),
      "X");
  put(app.add_option("--plugin", what.plugins, "shared library with strategies or workloads (it runs code); repeatable")
          ->allow_extra_args(false),
      "FILE");
  put(app.add_option("--filter", what.filter, "only cases whose id (check: checks whose name) matches")
          ->check(regular_expression()),
      "RE");
  put(app.add_option("--seed", what.seed, "of models, data and order [1]")->check(between(0, 1e15)), "N");
  put(app.add_option("--threads", what.threads, "of each replica [cores / largest world]")->check(between(1, 4096)),
      "N");
  put(app.add_option("--data", what.data_dir, "MNIST's four IDX files [digits drawn by the program]"), "DIR");
  put(app.add_flag("--oversubscribe", what.oversubscribe, "rank r on GPU r mod count when there are too few"), "");
}

void add_sampling(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Sampling")->type_name(type); };
  put(app.add_flag("--quick", o.quick, "1 launch, 3 samples, 5 warm-up steps; the default when nothing is chosen"), "");
  put(app.add_option("--launches", o.launches, "fresh starts of every case, in random order [5]")
          ->check(between(1, 1000)),
      "N");
  put(app.add_option("--samples", o.sampling.samples, "of a launch [10]")->check(between(1, 100000)), "N");
  put(app.add_option("--steps", o.sampling.steps, "of a sample [as many as fill 0.1 s]")->check(between(1, 1e9)), "N");
  put(app.add_option("--warmup", o.sampling.warmup, "steps before the first sample [20]")->check(between(0, 1e6)), "N");
  put(app.add_option("--max-time", o.sampling.max_time_s, "seconds of sampling a case may take over its launches [60]")
          ->check(between(0.001, 1e6, true)),
      "S");
  put(app.add_option("--max-noise", o.max_noise_percent, "adds launches until the noise is below, or --max-time [off]")
          ->check(between(0.01, 1000, true)),
      "PCT");
  put(app.add_flag("!--no-baseline", o.what.baseline, "leave out the single-device row of each workload"), "");
  put(app.add_option("--check", o.check, "checks of every case before it is timed [auto]")
          ->check(one_of({"auto", "off"})),
      "auto|off");
  put(app.add_flag("--trace", o.trace, "also trace some untimed steps of each case, for Perfetto"), "");
}

void add_running(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Running")->type_name(type); };
  put(app.add_option("--timeout", o.timeout_s, "seconds without progress of any rank before a case is given up [30]")
          ->check(between(0.1, 1e6, true)),
      "S");
  put(app.add_option("--launcher", o.launcher, "who has started this process as one rank of several [found by itself]")
          ->check(one_of({"auto", "self", "torchrun", "mpi", "slurm", "env"})),
      "auto|self|torchrun|mpi|slurm|env");
  put(app.add_flag("-n,--dry-run", o.dry_run, "print the plan and run nothing"), "");
}

void add_retries(CLI::App& app, Options& o) {
  app.add_option("--retries", o.retries, "further attempts of a case that failed; the report says so [0]")
      ->check(between(0, 100))
      ->group("Running")
      ->type_name("N");
}

void add_forms(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Output")->type_name(type); };
  put(app.add_option("--save-baseline", o.save_baseline, "also keep the report under this name, for compare"), "NAME");
  put(app.add_option("-o,--output", o.output, "form on stdout [table]")
          ->check(one_of({"table", "json", "csv", "markdown", "none"})),
      "table|json|csv|markdown|none");
}

void add_output(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Output")->type_name(type); };
  put(app.add_option("--out", o.out_dir, "where run directories are made [results]"), "DIR");
  put(app.add_flag("-q,--quiet", o.quiet, "nothing on stderr but errors"), "");
  put(app.add_flag("-v,--verbose", o.verbose, "say on stderr what is started and why"), "");
  put(app.add_option("--color", o.color, "NO_COLOR is obeyed [auto]")->check(one_of({"auto", "always", "never"})),
      "auto|always|never");
  put(app.add_option("--progress", o.progress, "on stderr: a moving line, or a line a case [auto]")
          ->check(one_of({"auto", "plain", "none"})),
      "auto|plain|none");
}

void add_checking(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Checking")->type_name(type); };
  put(app.add_option("--seeds", o.checking.seeds, "different seeds of every check [1]")->check(between(1, 10000)), "N");
  put(app.add_flag("--long", o.checking.long_form, "the long form: more steps, shapes and worlds"), "");
  put(app.add_option("--junit", o.checking.junit, "also write the results as JUnit XML"), "FILE");
  put(app.add_option("--dump", o.checking.dump, "write weights, batches, gradients and outputs as safetensors"), "DIR");
}

void add_config(CLI::App& app, Options&) {
  app.set_config("--config", "", "flags from a TOML file (strategy = [\"dp\", \"ddp\"]); the command line wins")
      ->group("Running")
      ->type_name("FILE");
}

void add_run(CLI::App& app, Options& o) {
  for (const Filler fill : {add_what, add_sampling, add_running, add_retries, add_config, add_output, add_forms})
    fill(app, o);
}

void add_check(CLI::App& app, Options& o) {
  for (const Filler fill : {add_what, add_checking, add_running, add_retries, add_config, add_output, add_forms})
    fill(app, o);
}

void add_train(CLI::App& app, Options& o) {
  for (const Filler fill : {add_what, add_training, add_running, add_config, add_output}) fill(app, o);
}

void add_list(CLI::App& app, Options& o) {
  app.add_option("topic", o.topic, "strategies, workloads, backends, devices, or the name of one")->type_name("TOPIC");
  app.add_option("--plugin", o.what.plugins, "shared library to list as well (it runs code); repeatable")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("-o,--output", o.output, "form on stdout [table]")
      ->check(one_of({"table", "json"}))
      ->type_name("table|json");
}

void add_runs(CLI::App& app, Options& o, const std::string& help) {
  app.add_option("runs", o.stored.runs, help)->type_name("RUN");
  app.add_option("--results", o.stored.results, "directory that 'latest' and baselines are looked for in [results]")
      ->type_name("DIR");
}

void add_compare(CLI::App& app, Options& o) {
  add_runs(app, o, "base, then new: a run.json, a run's or results directory, latest, latest~1, a baseline's name");
  const auto put = [](CLI::Option* option, const char* type) { option->group("Gate")->type_name(type); };
  put(add_list(app, "--fail-on", o.stored.fail_on,
               "median, p99, throughput, peak-memory, ratio-to-baseline: percent; efficiency: points [median:5%]"),
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

void add_duel(CLI::App& app, Options& o) {
  add_what(app, o);
  const auto put = [](CLI::Option* option, const char* group, const char* type) {
    return option->group(group)->type_name(type);
  };
  put(app.add_option("--base", o.duel.base, "dpbench, its worker, or the directory of a build [this build]"), "Duel",
      "PROGRAM|DIR");
  put(app.add_option("--new", o.duel.now, "the same for the build that is judged [this build]"), "Duel", "PROGRAM|DIR");
  put(app.add_option("--base-plugin", o.duel.base_plugins, "plug-in of the base build alone; repeatable")
          ->allow_extra_args(false),
      "Duel", "FILE");
  put(app.add_option("--new-plugin", o.duel.new_plugins, "plug-in of the new build alone; repeatable")
          ->allow_extra_args(false),
      "Duel", "FILE");
  put(app.add_flag("--strict", o.stored.strict, "exit 4 when a case is unclear"), "Duel", "");
  put(app.add_option("--pairs", o.duel.pairs, "take exactly so many [until clear, at 20, 40, 80 or 160]")
          ->check(between(10, 1e6)),
      "Sampling", "N");
  put(app.add_option("--pairs-per-launch", o.duel.pairs_per_launch, "then both builds are started afresh [5]")
          ->check(between(1, 1e6)),
      "Sampling", "N");
  put(app.add_option("--min-time", o.sampling.min_sample_s, "seconds of a block at least [0.2]")
          ->check(between(0.001, 3600, true)),
      "Sampling", "S");
  put(app.add_option("--steps", o.sampling.steps, "of a block [as many as --min-time takes]")->check(between(1, 1e9)),
      "Sampling", "N");
  put(app.add_option("--warmup", o.sampling.warmup, "steps after each start [20]")->check(between(0, 1e6)), "Sampling",
      "N");
  put(app.add_option("--check", o.check, "checks of both builds before they are timed [auto]")
          ->check(one_of({"auto", "off"})),
      "Sampling", "auto|off");
  put(app.add_option("--timeout", o.timeout_s, "seconds without progress of any rank before a case is given up [30]")
          ->check(between(0.1, 1e6, true)),
      "Running", "S");
  put(app.add_flag("-n,--dry-run", o.dry_run, "print the plan and run nothing"), "Running", "");
  add_config(app, o);
  put(app.add_option("--out", o.out_dir, "where run directories are made [results]"), "Output", "DIR");
  put(app.add_option("-o,--output", o.output, "form on stdout [table]")
          ->check(one_of({"table", "markdown", "json", "none"})),
      "Output", "table|markdown|json|none");
  put(app.add_flag("-q,--quiet", o.quiet, "nothing on stderr but errors"), "Output", "");
  put(app.add_flag("-v,--verbose", o.verbose, "say on stderr what is started and why"), "Output", "");
  put(app.add_option("--progress", o.progress, "on stderr: a moving line, or a line a case [auto]")
          ->check(one_of({"auto", "plain", "none"})),
      "Output", "auto|plain|none");
}

void add_project(CLI::App& app, Options& o) {
  add_runs(app, o, "the run with three worlds or more to project from [latest]");
  ProjectOptions& p = o.project;
  const auto put = [](CLI::Option* option, const char* type) { option->group("Projection")->type_name(type); };
  put(add_list(app, "--to", p.to, "the worlds to work out")->check(between(1, 1 << 20)), "N,..");
  put(add_list(app, "--from", p.from, "the worlds to fit; others are compared with [all]")->check(between(1, 1 << 20)),
      "N,..");
  put(app.add_option("--link", p.link, "intra=450GB/s:2us,inter=50GB/s:10us: of one device [as fitted to the run]"),
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

struct Command {
  CommandInfo info;
  Filler fill;
};

const std::vector<Command>& command_table() {
  static const std::vector<Command> table = {
      {{"run", "measure strategies (bare flags mean run)"}, add_run},
      {{"check", "prove strategies right: their gradients, buffers and steps against the mathematics"}, add_check},
      {{"train", "train as the documents' programs do: their data, their printed lines, their saved model"}, add_train},
      {{"list", "strategies, workloads, backends, devices; `list ddp` shows one"}, add_list},
      {{"doctor", "what is missing on this machine, and the command that mends it"}, add_env},
      {{"env", "the machine as a report describes it"}, add_env},
      {{"compare", "judge one stored run against another: the gate"}, add_compare},
      {{"duel", "judge two builds by measuring them now, in turn"}, add_duel},
      {{"project", "larger worlds, worked out from a stored run and never measured"}, add_project},
      {{"export", "a stored run in the form of another tool"}, add_export},
      {{"report", "the page and the charts of stored runs"}, add_report},
      {{"validate", "whether reports are whole and agree with themselves"}, add_validate},
  };
  return table;
}

const Command& command_named(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& command : command_table()) {
    if (command.info.name == name) return command;
    known.push_back(command.info.name);
  }
  throw UsageError("unknown command '" + one_line(name, 40) + "'" + did_you_mean(name, known) +
                   "; commands: " + join(known));
}

std::string header(const std::string& command) {
  std::string text = "dpbench " DPBENCH_VERSION ": benchmark and proof of data-parallel strategies on LibTorch\n\n";
  if (command != "run") return text + command_named(command).info.summary + "\n\n";
  text += "Usage: dpbench [COMMAND] [FLAGS]\n\nCommands (dpbench COMMAND --help):\n";
  for (const auto& info : commands())
    text += "  " + info.name + std::string(10 - info.name.size(), ' ') + info.summary + "\n";
  return text + "\n" + kExamples + "\n\n";
}

// Flags alone: the usage and the commands stand in the header.
class FlagFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return ""; }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    const std::string name = CLI::Formatter::make_option_name(option, positional);
    return name.substr(0, name.find('{'));
  }
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override {
    return CLI::Formatter::make_group(std::move(group), positional, std::move(options)).erase(0, 1);
  }
};

std::string help_text(const CLI::App& app, const std::string& command) {
  std::string flags = app.help();
  const std::string ending = command == "run" ? std::string("\n") + kExitCodes + "\n" : "";
  return header(command) + flags + ending;
}

void name_app(CLI::App& app, const Command& command, Options& options) {
  app.name(command.info.name == "run" ? "" : "dpbench " + command.info.name);
  app.formatter(std::make_shared<FlagFormatter>());
  app.get_formatter()->column_width(34);
  app.set_help_flag("-h,--help", "this text")->group("Output");
  if (command.info.name == "run")
    app.set_version_flag("--version", "dpbench " DPBENCH_VERSION)->description("the version")->group("Output");
  app.allow_extras();
  app.allow_config_extras(CLI::config_extras_mode::error);
  command.fill(app, options);
}

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// A mistyped flag, or a word that no flag takes.
void refuse_extras(const CLI::App& app, const std::string& command) {
  const auto extras = app.remaining();
  if (extras.empty()) return;
  const std::string word = extras.front().substr(0, extras.front().find('='));
  const std::string shown = "'" + one_line(word, 60) + "'";
  const std::string help = "; see dpbench " + (command == "run" ? std::string() : command + " ") + "--help";
  if (word.starts_with('-')) throw UsageError("unknown flag " + shown + did_you_mean(word, flag_names(app)) + help);
  throw UsageError("unexpected word " + shown + " (lists take commas, not spaces)" + help);
}

// Before CLI11 reads it whole.
void refuse_bad_config(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string file;
    if (arguments[i].starts_with("--config="))
      file = arguments[i].substr(9);
    else if (arguments[i] == "--config" && i + 1 < arguments.size())
      file = arguments[i + 1];
    else
      continue;
    std::error_code failed;
    if (!std::filesystem::is_regular_file(file, failed))
      throw UsageError("--config '" + one_line(file, 200) + "': no such file");
    if (std::filesystem::file_size(file, failed) > kLargestConfig || failed)
      throw UsageError("--config '" + one_line(file, 200) + "': larger than 1 MiB");
  }
}

bool any_given(const CLI::App& app, const std::string& group) {
  const auto options = app.get_options([&](const CLI::Option* option) { return option->get_group() == group; });
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->count() > 0; });
}

// --quick sets what was not set by hand; it is what bare `dpbench` means.
void settle_sampling(const CLI::App& app, Options& o) {
  const bool chosen = any_given(app, "What to run") || any_given(app, "Sampling");
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
  if (!chosen) o.quick = true;
  if (!o.quick) return;
  if (app.count("--launches") == 0) o.launches = 1;
  if (app.count("--samples") == 0) o.sampling.samples = 3;
  if (app.count("--warmup") == 0) o.sampling.warmup = 5;
}

void settle_duel(const CLI::App& app, Options& o) {
  o.what.baseline = false;
  if (app.count("--min-time") == 0) o.sampling.min_sample_s = 0.2;
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
}

// Checking is not sampling: one launch, no rows added, worlds in which order and sharing out can go wrong.
void settle_checking(Options& o) {
  o.launches = 1;
  o.what.baseline = false;
  o.what.probes = o.what.every_backend = true;
  o.what.default_worlds = o.checking.long_form ? std::vector<int>{1, 2, 3, 4, 7, 8} : std::vector<int>{1, 3};
  o.checking.filter = std::exchange(o.what.filter, "");
}

void settle(const CLI::App& app, const Command& command, Options& o) {
  if (command.info.name == "run") settle_sampling(app, o);
  if (command.info.name == "duel") settle_duel(app, o);
  if (command.info.name == "check") settle_checking(o);
  if (command.info.name == "train") settle_training(o);
  const auto everything = [](std::vector<std::string>& names) {
    if (std::find(names.begin(), names.end(), "all") != names.end()) names.clear();
  };
  everything(o.what.strategies);
  everything(o.what.workloads);
  if (!o.what.data_dir.empty()) o.what.data_dir = std::filesystem::absolute(o.what.data_dir);
}

std::string plain(const std::string& message) {
  const std::string text = one_line(message, 300);
  return text.starts_with("INI was not able to parse ") ? "--config: unknown key '" + text.substr(26) + "'" : text;
}

}  // namespace

const std::vector<CommandInfo>& commands() {
  static const std::vector<CommandInfo> infos = [] {
    std::vector<CommandInfo> all;
    for (const auto& command : command_table()) all.push_back(command.info);
    return all;
  }();
  return infos;
}

std::variant<Options, std::string> parse_command_line(const std::vector<std::string>& arguments) {
  Options options;
  options.argv = arguments;
  std::vector<std::string> rest = arguments;
  if (!rest.empty() && !rest.front().starts_with('-')) {
    options.command = rest.front();
    rest.erase(rest.begin());
  }
  const Command& command = command_named(options.command);
  CLI::App app;
  name_app(app, command, options);
  refuse_bad_config(rest);
  std::reverse(rest.begin(), rest.end());  // as CLI11 wants them
  try {
    app.parse(rest);
  } catch (const CLI::CallForHelp&) {
    return help_text(app, options.command);
  } catch (const CLI::CallForVersion&) {
    return std::string("dpbench " DPBENCH_VERSION "\n");
  } catch (const CLI::Error& error) {
    throw UsageError(plain(error.what()));
  }
  refuse_extras(app, options.command);
  settle(app, command, options);
  return options;
}

std::vector<std::string> flags_of(const std::string& command) {
  Options unused;
  CLI::App app;
  name_app(app, command_named(command), unused);
  return flag_names(app);
}

}  // namespace dpbench
