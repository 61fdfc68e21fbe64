// Flags of the commands that start workers.
#include "harness/front/flags.h"
#include "harness/front/training_flags.h"
#include "harness/front/validators.h"
#include "workloads/limits.h"

namespace dpbench {
namespace {

using Filler = void (*)(CLI::App&, Options&);

void add_cases(CLI::App& app, Options& o) {
  Selection& what = o.what;
  const auto put = [](CLI::Option* option, const char* type) { option->group("What to run")->type_name(type); };
  put(add_values(app, "--strategy", what.strategies, "strategies to run [all]"), "NAME,..");
  put(add_values(app, "--workload", what.workloads, "workloads to train [all]"), "NAME,..");
  put(add_values(app, "--gpus", what.gpus, "worlds of so many GPUs [all there are]")->check(each(between(1, kMaxWorld))),
      "N,..");
  put(add_values(app, "--cpus", what.cpus, "worlds of so many virtual CPU devices [1,2 without a GPU]")
          ->check(each(between(1, kMaxWorld))),
      "N,..");
  put(add_values(app, "--dtype", what.dtypes, "precision; bf16 is autocast over float32 [f32]")
          ->check(each(one_of({"f32", "f64", "bf16"}))),
      "f32|f64|bf16");
  put(add_values(app, "--backend", what.backends, "what collectives run on [auto]"), "auto|NAME,..");
  put(app.add_option("--param", what.params, "a strategy's parameter; several values are an axis; repeatable")
          ->allow_extra_args(false),
      "[STRATEGY.]KEY=V,..");
  put(app.add_option("--scale", what.scale, "makes the models wider and deeper [1]")->check(between(1, kMaxScale)), "K");
  put(app.add_option("--plugin", what.plugins, "library with strategies or workloads (it runs code); repeatable")
          ->allow_extra_args(false),
      "FILE");
  put(app.add_option("--filter", what.filter, "only cases whose id (check: checks whose name) matches")
          ->check(regular_expression()),
      "RE");
  put(app.add_option("--seed", what.seed, "of models, dropout and the order of rows and cases [1]")->check(between(0, 1e15)), "N");
  put(app.add_option("--threads", what.threads, "of each replica [cores / largest world]")->check(between(1, 4096)),
      "N");
  put(app.add_option("--data", what.data_dir, "MNIST's four IDX files [digits drawn by the program]")->check(not_empty()), "DIR");
  put(app.add_flag("--oversubscribe", what.oversubscribe, "rank r on GPU r mod count when there are too few"), "");
}

// What check chooses for itself: its scenarios have rows, micro-batches and limits of their own.
void add_step(CLI::App& app, Options& o) {
  Selection& what = o.what;
  const auto put = [](CLI::Option* option, const char* type) { option->group("What to run")->type_name(type); };
  put(add_values(app, "--batch", what.batches, "rows per device (weak) or in all (strong) [the workload's]")
          ->check(each(between(1, 1 << 30))),
      "N,..");
  put(app.add_option("--scaling", what.scaling, "what --batch counts [the workload's]")
          ->check(one_of({"strong", "weak"})),
      "strong|weak");
  put(app.add_option("--accumulate", what.accumulate, "micro-batches of a step [1]")->check(between(1, 65536)), "K");
  put(app.add_option("--clip-norm", what.clip_norm, "limit on the gradient's global norm [none]")
          ->check(between(0, 1e30, true)),
      "X");
}

void add_what(CLI::App& app, Options& o) {
  add_cases(app, o);
  add_step(app, o);
}

void add_sampling(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Sampling")->type_name(type); };
  put(app.add_flag("--quick", o.quick, "1 launch, 3 samples of 50 ms, 5 warm-up steps [if nothing is chosen]"), "");
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
  put(app.add_flag("-n,--dry-run", o.dry_run, "print the plan and run nothing"), "");
}

void add_launcher(CLI::App& app, Options& o) {
  app.add_option("--launcher", o.launcher, "who started this process as one rank of several [found by itself]")
      ->check(one_of({"auto", "self", "torchrun", "mpi", "slurm", "env"}))
      ->group("Running")
      ->type_name("auto|self|torchrun|mpi|slurm|env");
}

void add_retries(CLI::App& app, Options& o) {
  app.add_option("--retries", o.retries, "further attempts of a case that failed; the report says so [0]")
      ->check(between(0, 100))
      ->group("Running")
      ->type_name("N");
}

void add_baseline(CLI::App& app, Options& o) {
  app.add_option("--save-baseline", o.save_baseline, "also keep the report under this name, for compare")
      ->check(not_empty())
      ->group("Output")
      ->type_name("NAME");
}

void add_forms(CLI::App& app, Options& o) {
  app.add_option("-o,--output", o.output, "form on stdout [table]")
      ->check(one_of({"table", "json", "csv", "markdown", "none"}))
      ->group("Output")
      ->type_name("table|json|csv|markdown|none");
}

void add_directory(CLI::App& app, Options& o) {
  app.add_option("--out", o.out_dir, "where run directories are made [results]")
      ->check(not_empty())
      ->group("Output")
      ->type_name("DIR");
}

void add_talk(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Output")->type_name(type); };
  put(app.add_flag("-q,--quiet", o.quiet, "nothing on stderr but errors"), "");
  put(app.add_flag("-v,--verbose", o.verbose, "say on stderr what is started and why"), "");
  put(app.add_option("--progress", o.progress, "on stderr: a moving line, or a line a case [auto]")
          ->check(one_of({"auto", "plain", "none"})),
      "auto|plain|none");
}

void add_color(CLI::App& app, Options& o) {
  app.add_option("--color", o.color, "NO_COLOR is obeyed [auto]")
      ->check(one_of({"auto", "always", "never"}))
      ->group("Output")
      ->type_name("auto|always|never");
}

void add_checking(CLI::App& app, Options& o) {
  const auto put = [](CLI::Option* option, const char* type) { option->group("Checking")->type_name(type); };
  put(app.add_option("--seeds", o.checking.seeds, "different seeds of every check [1]")->check(between(1, 10000)), "N");
  put(app.add_flag("--long", o.checking.long_form,
                   "worlds 1 to 4, 7 and 8 rather than 1 and 3, up to 3 sparing nothing\n(results/README.md); at most 10 minutes rather than one"),
      "");
  put(app.add_option("--junit", o.checking.junit, "also write the results as JUnit XML")->check(not_empty()), "FILE");
  put(app.add_option("--dump", o.checking.dump, "write weights, batches, gradients and outputs as safetensors")->check(not_empty()),
      "DIR");
}

void add_config(CLI::App& app, Options&) {
  app.set_config("--config", "", "flags from a TOML file (strategy = [\"ddp\"]); the command line wins")
      ->group("Running")
      ->type_name("FILE");
}

}  // namespace

void add_run(CLI::App& app, Options& o) {
  for (const Filler fill : {add_what, add_sampling, add_running, add_launcher, add_retries, add_config, add_directory,
                            add_talk, add_color, add_baseline, add_forms})
    fill(app, o);
}

void add_check(CLI::App& app, Options& o) {
  for (const Filler fill :
       {add_cases, add_checking, add_running, add_launcher, add_retries, add_config, add_talk, add_forms})
    fill(app, o);
  app.get_option("--gpus")->description("worlds of so many GPUs [1,3 as far as there are]");
  app.get_option("--cpus")->description("worlds of so many virtual CPU devices [1,3 without a GPU]");
}

void add_train(CLI::App& app, Options& o) {
  for (const Filler fill : {add_what, add_training, add_running, add_launcher, add_config, add_directory, add_talk})
    fill(app, o);
}

void add_duel(CLI::App& app, Options& o) {
  for (const Filler fill : {add_what, add_running, add_config, add_directory, add_talk}) fill(app, o);
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
  put(app.add_option("-o,--output", o.output, "form on stdout [table]")
          ->check(one_of({"table", "markdown", "json", "none"})),
      "Output", "table|markdown|json|none");
}

}  // namespace dpbench
