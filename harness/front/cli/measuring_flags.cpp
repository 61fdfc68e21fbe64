#include "harness/front/cli/measuring_flags.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/front/cli/flags.h"
#include "harness/front/text/paths.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"
#include "workloads/base/limits.h"

namespace dpbench {
namespace {

void add_cases(CLI::App& app, Selection& what) {
  const auto put = in_group("What to run");
  put(add_values(app, "--strategy", what.strategies, "strategies to run [all]"), "NAME,..");
  put(add_values(app, "--workload", what.workloads, "workloads to train [all]"), "NAME,..");
  put(add_values(app, "--gpus", what.gpus, "worlds of so many GPUs [all there are]")
          ->check(each(between(1, max_world))),
      "N,..");
  put(add_values(app, "--cpus", what.cpus, "worlds of so many virtual CPU devices [1,2 without a GPU]")
          ->check(each(between(1, max_world))),
      "N,..");
  put(add_values(app, "--dtype", what.dtypes, "precision; bf16 is autocast over float32 [f32]")
          ->check(each(one_of(names_list<Dtype>()))),
      "f32|f64|bf16");
  put(add_values(app, "--backend", what.backends, "what collectives run on [auto]"), "auto|NAME,..");
  put(app.add_option("--param", what.params, "a strategy's parameter; several values are an axis; repeatable")
          ->allow_extra_args(false),
      "[STRATEGY.]KEY=V,..");
  put(app.add_option("--scale", what.scale, "makes the models wider and deeper [1]")->check(between(1, kMaxScale)),
      "K");
  put(app.add_option("--plugin", what.plugins, "library with strategies or workloads (it runs code); repeatable")
          ->allow_extra_args(false),
      "FILE");
  put(app.add_option("--filter", what.filter, "only cases whose id (check: checks whose name) matches")
          ->check(regular_expression()),
      "RE");
  put(app.add_option("--seed", what.seed, "of models, dropout and the order of rows and cases [1]")
          ->check(between(0, 1e15)),
      "N");
  put(app.add_option("--threads", what.threads, "of each replica [cores / largest world]")->check(between(1, 4096)),
      "N");
  put(app.add_option("--data", what.data_dir, "MNIST's four IDX files [digits drawn by the program]")
          ->check(not_empty()),
      "DIR");
  put(app.add_flag("--oversubscribe", what.oversubscribe, "rank r on GPU r mod count when there are too few"), "");
}

// What check chooses for itself: its scenarios have rows, micro-batches and limits of their own.
void add_step(CLI::App& app, Selection& what) {
  const auto put = in_group("What to run");
  put(add_values(app, "--batch", what.batches, "rows per device (weak) or in all (strong) [the workload's]")
          ->check(each(between(1, 1 << 30))),
      "N,..");
  add_named<Scaling>(app, "--scaling", what.scaling, "what --batch counts [the workload's]")->group("What to run");
  put(app.add_option("--accumulate", what.accumulate, "micro-batches of a step [1]")->check(between(1, 65536)), "K");
  put(app.add_option("--clip-norm", what.clip_norm, "limit on the gradient's global norm [none]")
          ->check(between(0, 1e30, true)),
      "X");
}

void add_what(CLI::App& app, Selection& what) {
  add_cases(app, what);
  add_step(app, what);
}

void add_check_switch(CLI::App& app, MeasuringOptions& o, const std::string& help) {
  add_named<Switch>(app, "--check", o.check, help, {Switch::automatic, Switch::off})->group("Sampling");
}

void add_sampling(CLI::App& app, MeasuringOptions& o) {
  const auto put = in_group("Sampling");
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
  add_check_switch(app, o, "checks of every case before it is timed [auto]");
  put(app.add_flag("--trace", o.trace, "also trace some untimed steps of each case, for Perfetto"), "");
}

void add_running(CLI::App& app, MeasuringOptions& o) {
  const auto put = in_group("Running");
  put(app.add_option("--timeout", o.timeout_s, "seconds without progress of any rank before a case is given up [30]")
          ->check(between(0.1, 1e6, true)),
      "S");
  put(app.add_flag("-n,--dry-run", o.dry_run, "print the plan and run nothing"), "");
}

void add_launcher(CLI::App& app, MeasuringOptions& o) {
  add_named<StartedBy>(app, "--launcher", o.started_by,
                       "who started this process as one rank of several [found by itself]")
      ->group("Running");
}

void add_retries(CLI::App& app, MeasuringOptions& o) {
  app.add_option("--retries", o.retries, "further attempts of a case that failed; the report says so [0]")
      ->check(between(0, 100))
      ->group("Running")
      ->type_name("N");
}

void add_directory(CLI::App& app, MeasuringOptions& o) {
  app.add_option("--out", o.out_dir, "where run directories are made [results]")
      ->check(not_empty())
      ->group("Output")
      ->type_name("DIR");
}

void add_talk(CLI::App& app, MeasuringOptions& o) {
  const auto put = in_group("Output");
  put(app.add_flag("-q,--quiet", o.quiet, "nothing on stderr but errors"), "");
  put(app.add_flag("-v,--verbose", o.verbose, "say on stderr what is started and why"), "");
  add_named<ProgressChoice>(app, "--progress", o.progress, "on stderr: a moving line, or a line a case [auto]")
      ->group("Output");
}

void add_checking(CLI::App& app, CheckingOptions& o) {
  const auto put = in_group("Checking");
  put(app.add_option("--seeds", o.seeds, "different seeds of every check [1]")->check(between(1, 10000)), "N");
  put(app.add_flag("--long", o.long_form,
                   "worlds 1 to 4, 7 and 8 rather than 1 and 3, up to 3 sparing nothing\n(results/README.md); at most "
                   "10 minutes rather than one"),
      "");
  put(app.add_option("--junit", o.junit, "also write the results as JUnit XML")->check(not_empty()), "FILE");
  put(app.add_option("--dump", o.dump, "write weights, batches, gradients and outputs as safetensors")
          ->check(not_empty()),
      "DIR");
}

void add_config(CLI::App& app) {
  app.set_config("--config", "", "flags from a TOML file (strategy = [\"ddp\"]); the command line wins")
      ->group("Running")
      ->type_name("FILE");
}

void add_dueling(CLI::App& app, DuelOptions& o) {
  const auto put = in_group("Duel");
  put(app.add_option("--base", o.base, "dpbench, its worker, or the directory of a build [this build]"), "PROGRAM|DIR");
  put(app.add_option("--new", o.now, "the same for the build that is judged [this build]"), "PROGRAM|DIR");
  put(app.add_option("--base-plugin", o.base_plugins, "plug-in of the base build alone; repeatable")
          ->allow_extra_args(false),
      "FILE");
  put(app.add_option("--new-plugin", o.new_plugins, "plug-in of the new build alone; repeatable")
          ->allow_extra_args(false),
      "FILE");
  put(app.add_flag("--strict", o.strict, "exit 4 when a case is unclear"), "");
}

void add_pairs(CLI::App& app, DuelOptions& o) {
  const auto put = in_group("Sampling");
  put(app.add_option("--pairs", o.pairs, "take exactly so many [until clear, at 20, 40, 80 or 160]")
          ->check(between(10, 1e6)),
      "N");
  put(app.add_option("--pairs-per-launch", o.pairs_per_launch, "then both builds are started afresh [5]")
          ->check(between(1, 1e6)),
      "N");
  put(app.add_option("--min-time", o.sampling.min_sample_s, "seconds of a block at least [0.2]")
          ->check(between(0.001, 3600, true)),
      "S");
  put(app.add_option("--steps", o.sampling.steps, "of a block [as many as --min-time takes]")->check(between(1, 1e9)),
      "N");
  put(app.add_option("--warmup", o.sampling.warmup, "steps after each start [20]")->check(between(0, 1e6)), "N");
  add_check_switch(app, o, "checks of both builds before they are timed [auto]");
}

void add_training(CLI::App& app, TrainingOptions& o) {
  TrainOptions& t = o.training;
  const auto put = in_group("Training");
  put(app.add_option("--epochs", t.epochs, "passes over the data [the document's: 2; random-linear 1]")
          ->check(between(1, 1e6)),
      "N");
  put(app.add_flag("--show-shapes", t.show_shapes, "print the sizes that each replica's model gets and gives"), "");
  put(app.add_flag("--drop-last", t.drop_last, "leave out the rows that fill no whole batch on every rank"), "");
  put(app.add_flag("--eval", t.evaluate, "accuracy on the test rows after every epoch"), "");
  put(app.add_option("--target-accuracy", t.target_accuracy,
                     "stop once this part of the test rows is right; exit 1 if it never is")
          ->check(between(1e-9, 1, true)),
      "0..1");
  put(app.add_option("--save", t.save, "the trained model, as safetensors")->check(not_empty()), "FILE");
  put(app.add_option("--checkpoint-every", t.checkpoint_every, "steps between checkpoints [never]")
          ->check(between(1, 1e12)),
      "STEPS");
  put(app.add_option("--checkpoint", t.checkpoint, "where they go [checkpoint.safetensors in the run's directory]")
          ->check(not_empty()),
      "FILE");
  put(app.add_option("--resume", t.resume, "go on from a checkpoint, with the bits of a run that never stopped")
          ->check(not_empty()),
      "FILE");
}

// The flags that run has too choose one case here, not many.
void reword(CLI::App& app) {
  const auto say = [&](const char* flag, const char* help, const char* type) {
    app.get_option(flag)->description(help)->type_name(type);
  };
  say("--strategy", "how to train; cpu and gpu are one device", "NAME");
  say("--workload", "what to train", "NAME");
  say("--gpus", "on so many GPUs [all there are]", "N");
  say("--cpus", "on so many virtual CPU devices [all cores, where there is no GPU]", "N");
  say("--batch", "rows per device (weak) or in all (strong) [the workload's]", "N");
  app.remove_option(app.get_option("--filter"));
}

bool any_given(const CLI::App& app, const std::string& group) {
  const auto options = app.get_options([&](const CLI::Option* option) { return option->get_group() == group; });
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->count() > 0; });
}

constexpr const char* all = "all";  // stands for no names

// No names mean all of them. A name beside it would not be looked at, and may be a wrong one.
void settle_all(const std::string& flag, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), all) == names.end()) return;
  for (const auto& name : names)
    if (name != all)
      throw UsageError(flag + " " + one_line(join(names, ","), 100) + ": all and '" + one_line(name, 60) +
                       "' do not go together; use " + flag + " all, or names alone");
  names.clear();
}

void settle_selection(Selection& what) {
  settle_all("--strategy", what.strategies);
  settle_all("--workload", what.workloads);
  if (!what.data_dir.empty()) what.data_dir = absolute_path("--data", what.data_dir);
}

}  // namespace

void add_run_flags(CLI::App& app, RunOptions& o) {
  add_what(app, o.what);
  add_sampling(app, o);
  add_running(app, o);
  add_launcher(app, o);
  add_retries(app, o);
  add_config(app);
  add_directory(app, o);
  add_talk(app, o);
  add_named<Color>(app, "--color", o.color, "NO_COLOR is obeyed [auto]")->group("Output");
  app.add_option("--save-baseline", o.save_baseline, "also keep the report under this name, for compare")
      ->check(not_empty())
      ->group("Output")
      ->type_name("NAME");
  add_output(app, o.output, all_values<Form>())->group("Output");
}

void add_check_flags(CLI::App& app, CheckingOptions& o) {
  add_cases(app, o.what);
  add_checking(app, o);
  add_running(app, o);
  add_launcher(app, o);
  add_retries(app, o);
  add_config(app);
  add_talk(app, o);
  add_output(app, o.output, all_values<Form>())->group("Output");
  app.get_option("--gpus")->description("worlds of so many GPUs [1,3 as far as there are]");
  app.get_option("--cpus")->description("worlds of so many virtual CPU devices [1,3 without a GPU]");
}

void add_train_flags(CLI::App& app, TrainingOptions& o) {
  add_what(app, o.what);
  reword(app);
  add_training(app, o);
  add_running(app, o);
  add_launcher(app, o);
  add_config(app);
  add_directory(app, o);
  add_talk(app, o);
}

void add_duel_flags(CLI::App& app, DuelOptions& o) {
  add_what(app, o.what);
  add_running(app, o);
  add_config(app);
  add_directory(app, o);
  add_talk(app, o);
  add_dueling(app, o);
  add_pairs(app, o);
  add_output(app, o.output, {Form::table, Form::markdown, Form::json, Form::none})->group("Output");
}

// --quick sets what was not set by hand; it is what bare `dpbench` means.
void settle_run(const CLI::App& app, RunOptions& o) {
  settle_selection(o.what);
  const bool chosen = any_given(app, "What to run") || any_given(app, "Sampling");
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
  if (!chosen) o.quick = true;
  if (!o.quick) return;
  if (app.count("--launches") == 0) o.launches = 1;
  if (app.count("--samples") == 0) o.sampling.samples = 3;
  o.sampling.min_sample_s = 0.05;
  if (app.count("--warmup") == 0) o.sampling.warmup = 5;
}

// Checking is not sampling: one launch, no rows added, worlds in which order and sharing out can go wrong.
void settle_check(const CLI::App&, CheckingOptions& o) {
  o.launches = 1;
  o.what.baseline = false;
  o.what.probes = o.what.every_backend = o.what.own_rows = true;
  o.what.whole_worlds = !o.what.workloads.empty() ? max_world : o.long_form ? 3 : 0;
  o.what.default_worlds = o.long_form ? std::vector<int>{1, 2, 3, 4, 7, 8} : std::vector<int>{1, 3};
  o.check_filter = std::exchange(o.what.filter, "");
  settle_selection(o.what);
}

// Training is one case, once.
void settle_train(const CLI::App&, TrainingOptions& o) {
  o.launches = 1;
  o.what.baseline = false;
  o.what.one_place = o.what.whole_epochs = true;
  if (o.what.strategies.size() != 1 || o.what.workloads.size() != 1 || o.what.strategies[0] == all ||
      o.what.workloads[0] == all)
    throw UsageError("train wants one --strategy and one --workload, as in: " +
                     shell_command("train --workload mnist-mlp --strategy ddp --cpus 2"));
  if (!o.training.checkpoint.empty() && o.training.checkpoint_every == 0)
    throw UsageError("--checkpoint '" + one_line(o.training.checkpoint, 100) + "' needs --checkpoint-every STEPS");
  // One that cannot be looked at is refused by the worker, which knows what it is for.
  const auto place = [](const std::string& file) {
    std::error_code failed;
    std::filesystem::path path = std::filesystem::absolute(file, failed);
    if (!failed) path = std::filesystem::weakly_canonical(path, failed);
    return failed ? std::filesystem::path(file) : path;
  };
  if (!o.training.save.empty() && !o.training.checkpoint.empty() &&
      place(o.training.save) == place(o.training.checkpoint))
    throw UsageError("--save and --checkpoint name the same file '" + one_line(o.training.save, 100) + "'");
  settle_selection(o.what);
}

void settle_duel(const CLI::App& app, DuelOptions& o) {
  o.what.baseline = o.takes_ranks = false;
  if (app.count("--min-time") == 0) o.sampling.min_sample_s = 0.2;
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
  settle_selection(o.what);
}

}  // namespace dpbench
