#include "harness/front/cli/measuring_flags.h"

#include <string>
#include <vector>

#include "harness/front/cli/config_file.h"
#include "harness/front/cli/flags.h"
#include "harness/front/cli/tags.h"
#include "harness/report/stats/welch.h"
#include "workloads/base/limits.h"

namespace dpbench {
namespace {

void add_cases(CLI::App& app, Selection& what) {
  const auto add = in_group("What to run");
  add(add_values(app, "--strategy", what.strategies, "strategies to run [all]"), "NAME,..");
  add(add_values(app, "--workload", what.workloads, "workloads to train [all]"), "NAME,..");
  add(add_values(app, "--gpus", what.gpus, "GPUs; each value is a world: 1,2,4,..,64 [all GPUs]")
          ->check(each(between(1, max_world)))
          ->transform(ranges()),
      "N,..");
  add(add_values(app, "--cpus", what.cpus, "virtual CPU devices; each value is a world: 1-8 [1,2 without GPU]")
          ->check(each(between(1, max_world)))
          ->transform(ranges()),
      "N,..");
  add(app.add_option("--mesh", what.meshes, "ranks as a grid with named axes, e.g. dp=2,shard=2; repeatable")
          ->allow_extra_args(false)
          ->check(a_mesh()),
      "AXIS=N,..");
  add(add_values(app, "--dtype", what.dtypes, "precision; bf16 is autocast over float32 [f32]")
          ->check(each(one_of(names_list<Dtype>()))),
      "f32|f64|bf16");
  add(add_values(app, "--runtime", what.runtimes, "engine, layers and allocator: LibTorch's or dpbench's [torch]")
          ->check(each(one_of(names_list<Runtime>()))),
      "torch|fast");
  add(add_values(app, "--backend", what.backends, "library that carries the collectives [auto]"), "auto|NAME,..");
  add(app.add_option("--param", what.params, "strategy parameter; each value is a case; repeatable")
          ->allow_extra_args(false),
      "[STRATEGY.]KEY=V,..");
  add(app.add_option("--model", what.model, "shape of gpt ['dpbench list gpt'], or a model in Python")
          ->check(not_empty()),
      "NAME,KEY=V,..|MODULE:CLASS");
  add(app.add_option("--scale", what.scale, "make the models K times wider and deeper [1]")
          ->check(between(1, max_scale)),
      "K");
  add(app.add_option("--recompute", what.recompute,
                     "keep only the input of every K blocks of the model; run them twice")
          ->check(between(1, 65536)),
      "K");
  add(app.add_option("--plugin", what.plugins, "library or Python file of strategies, workloads; is run; repeatable")
          ->allow_extra_args(false),
      "FILE");
  add(app.add_option("--python", what.python, "interpreter for Python files, with its torch [python3]")
          ->check(not_empty()),
      "PROGRAM");
  add(app.add_option("--filter", what.filter,
                     "only cases with a match in the id (check: checks, in the name);\na regular expression (RE2)")
          ->check(regular_expression()),
      "RE");
  add(app.add_option("--seed", what.seed, "seed of models, dropout, sample and case order [1; check: random]")
          ->check(between(0, 1e15)),
      "N");
  add(app.add_option("--threads", what.threads, "threads of each replica [cores / largest world; steps below 1 ms: 1]")
          ->check(between(1, 4096)),
      "N");
  add(app.add_option("--data", what.data_dir, "MNIST's directory, or gpt's file of tokens [built-in samples]")
          ->check(not_empty()),
      "PATH");
  add(app.add_flag("--oversubscribe", what.oversubscribe, "let ranks share GPUs: rank r uses GPU r mod count"), "");
}

// Adds the batch, micro-batch and clipping flags. `check` lacks them because its test scenarios choose these values.
void add_step(CLI::App& app, Selection& what) {
  const auto add = in_group("What to run");
  add(add_values(app, "--batch", what.batches, "samples per device (weak) or in total (strong) [the workload's]")
          ->check(each(between(1, 1 << 30))),
      "N,..");
  add_named<Scaling>(app, "--scaling", what.scaling, "weak: --batch is per device; strong: in total [the workload's]")
      ->group("What to run");
  add(app.add_option("--accumulate", what.accumulate, "micro-batches per step [1]")->check(between(1, 65536)), "K");
  add(app.add_option("--clip-norm", what.clip_norm, "clip the global norm of the gradient to X [off]")
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

void add_audit_switch(CLI::App& app, MeasuringOptions& o, const std::string& help) {
  add_named<Switch>(app, "--audit", o.sampling.audit, help, {Switch::on, Switch::off})->group("Sampling");
}

void add_sampling(CLI::App& app, MeasuringOptions& o) {
  const auto add = in_group("Sampling");
  add(app.add_flag("--quick", o.quick, "1 launch, 6 or 9 blocks of 25 ms, 5 warm-up steps [no other flags]"), "");
  add(app.add_option("--launches", o.launches, "process starts per case, in random order [5]")->check(between(1, 1000)),
      "N");
  add(app.add_option("--samples", o.sampling.samples, "timed blocks per launch [10]")->check(between(1, 100000)), "N");
  add(app.add_option("--steps", o.sampling.steps, "steps per block [as many as take 0.1 s]")->check(between(1, 1e9)),
      "N");
  add(app.add_option("--warmup", o.sampling.warmup, "steps before the first block [20]")->check(between(0, 1e6)), "N");
  add(app.add_option("--max-time", o.sampling.max_time_s,
                     "limit on the timed seconds of a case, all launches together [60]")
          ->check(between(0.001, 1e6, true)),
      "S");
  add(app.add_option("--max-noise", o.max_noise_percent,
                     "add launches until noise is below PCT or --max-time is reached [off]")
          ->check(between(0.01, 1000, true)),
      "PCT");
  add(app.add_flag("!--no-baseline", o.what.baseline, "leave out the single-device case of each workload"), "");
  add(app.add_option("--reference", o.what.reference.strategy,
                     "measure speed-ups against it in the same world [the baseline]")
          ->check(not_empty()),
      "STRATEGY");
  add_check_switch(app, o, "check every case before timing it [auto]");
  add_audit_switch(app, o, "compare steps of the timed run with the oracle [on]");
  add(app.add_flag("--trace", o.trace, "also trace a few untimed steps of each case, for Perfetto"), "");
}

void add_running(CLI::App& app, MeasuringOptions& o) {
  const auto add = in_group("Running");
  add(app.add_option("--timeout", o.timeout_s, "seconds without progress until a case fails [30]")
          ->check(between(0.1, 1e6, true)),
      "S");
  add(app.add_flag("-n,--dry-run", o.dry_run, "print the plan, run nothing"), "");
}

void add_launcher(CLI::App& app, MeasuringOptions& o) {
  add_named<StartedBy>(app, "--launcher", o.started_by, "launcher that started this process as a rank [detected]")
      ->group("Running");
}

void add_retries(CLI::App& app, MeasuringOptions& o) {
  app.add_option("--retries", o.retries, "retries of a failed case; the report counts them [0]")
      ->check(between(0, 100))
      ->group("Running")
      ->type_name("N");
}

void add_directory(CLI::App& app, MeasuringOptions& o) {
  add_tags(app, o.tags);
  app.add_option("--out", o.out_dir, "parent directory of run directories [results]")
      ->check(not_empty())
      ->group("Output")
      ->type_name("DIR");
}

void add_talk(CLI::App& app, MeasuringOptions& o) {
  const auto add = in_group("Output");
  add(app.add_flag("-q,--quiet", o.quiet, "stderr: only errors, and lines that ranks print"), "");
  add(app.add_flag("-v,--verbose", o.verbose, "log each start and its reason; check: print every check"), "");
  add_named<ProgressChoice>(app, "--progress", o.progress,
                            "on stderr: a live line (auto) or one line per case (plain) [auto]")
      ->group("Output");
}

void add_checking(CLI::App& app, CheckingOptions& o) {
  const auto add = in_group("Checking");
  add(app.add_option("--seeds", o.seeds, "seeds per check [1]")->check(between(1, 10000)), "N");
  add(app.add_flag("--long", o.long_form, "worlds 1 to 8, and every combination up to world 3: several\ntimes as long"),
      "");
  add(app.add_flag("--short", o.short_form, "leave out costly scenarios for named workloads too")->excludes("--long"),
      "");
  add(app.add_option("--layouts", o.what.check.emplace().layouts,
                     "check N random meshes and models instead; shrink a failure")
          ->check(between(1, 10000)),
      "N");
  add(app.add_option("--junit", o.junit, "also write results as JUnit XML")->check(not_empty()), "FILE");
  add(app.add_option("--dump", o.dump, "write weights, batches, gradients and outputs as safetensors")
          ->check(not_empty()),
      "DIR");
}

void add_dueling(CLI::App& app, DuelOptions& o) {
  const auto add = in_group("Duel");
  add(app.add_option("--base", o.base, "base build: dpbench, its worker or a build's directory [this build]"),
      "PROGRAM|DIR");
  add(app.add_option("--new", o.now, "new build, likewise [this build]"), "PROGRAM|DIR");
  add(app.add_option("--base-plugin", o.base_plugins, "plug-in of the base build only; repeatable")
          ->allow_extra_args(false),
      "FILE");
  add(app.add_option("--new-plugin", o.new_plugins, "plug-in of the new build only; repeatable")
          ->allow_extra_args(false),
      "FILE");
  add(app.add_flag("--strict", o.strict, "exit 4 if a case is unclear"), "");
}

void add_pairs(CLI::App& app, DuelOptions& o) {
  const auto add = in_group("Sampling");
  add(app.add_option("--pairs", o.pairs, "number of pairs [until clear, judged at 20, 40, 80 and 160]")
          ->check(between(10, 1e6)),
      "N");
  add(app.add_option("--pairs-per-launch", o.pairs_per_launch, "pairs before both builds are restarted [5]")
          ->check(between(1, 1e6)),
      "N");
  add(app.add_option("--min-time", o.sampling.min_sample_s, "minimum seconds per block [0.2]")
          ->check(between(0.001, 3600, true)),
      "S");
  add(app.add_option("--steps", o.sampling.steps, "steps per block [as many as --min-time takes]")
          ->check(between(1, 1e9)),
      "N");
  add(app.add_option("--warmup", o.sampling.warmup, "warm-up steps after each start [20]")->check(between(0, 1e6)),
      "N");
  add_check_switch(app, o, "check both builds before timing [auto]");
  add_audit_switch(app, o, "compare steps between the blocks of both builds with the oracle [on]");
}

void add_training(CLI::App& app, TrainingOptions& o) {
  TrainOptions& t = o.training;
  const auto add = in_group("Training");
  add(app.add_option("--epochs", t.epochs, "passes over the data [2; random-linear: 1; gpt: 10]")
          ->check(between(1, 1e6)),
      "N");
  add(app.add_flag("--show-shapes", t.show_shapes, "print the input and output shapes of each replica's model"), "");
  add(app.add_flag("--drop-last", t.drop_last, "drop the last samples if they do not fill a batch on every rank"), "");
  add(app.add_flag("--eval", t.evaluate, "measure accuracy on the test samples after every epoch"), "");
  add(app.add_option("--target-accuracy", t.target_accuracy,
                     "stop when test accuracy reaches X (0 to 1); exit 1 if it never does")
          ->check(between(1e-9, 1, true)),
      "X");
  add(app.add_option("--generate", t.generate, "print a text of N tokens that the trained model writes (gpt)")
          ->check(between(1, 1e6)),
      "N");
  add(app.add_option("--save", t.save, "save the trained model as safetensors")->check(not_empty()), "FILE");
  add(app.add_option("--checkpoint-every", t.checkpoint_every, "write a checkpoint every STEPS steps [never]")
          ->check(between(1, 1e12)),
      "STEPS");
  add(app.add_option("--checkpoint", t.checkpoint, "file, or DIR/ for a file of each rank [in the run's directory]")
          ->check(not_empty()),
      "FILE");
  add(app.add_option("--resume", t.resume, "continue from a checkpoint, bit-identical to an uninterrupted run")
          ->check(not_empty()),
      "FILE");
}

// Rewords the help of flags that `train` shares with `run`: in `train` the flags together choose a single case. Removes
// --filter, which a single case does not need.
void reword(CLI::App& app) {
  const auto say = [&](const char* flag, const char* help, const char* type) {
    app.get_option(flag)->description(help)->type_name(type);
  };
  say("--strategy", "strategy; cpu and gpu use one device", "NAME");
  say("--workload", "workload to train", "NAME");
  say("--gpus", "number of GPUs [all]", "N");
  say("--cpus", "number of virtual CPU devices [all cores, without a GPU]", "N");
  say("--batch", "samples per device (weak) or in total (strong) [the workload's]", "N");
  app.remove_option(app.get_option("--filter"));
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
  add_named<Color>(app, "--color", o.color, "colors in tables; obeys NO_COLOR, FORCE_COLOR [auto]")->group("Output");
  app.add_option("--save-baseline", o.save_baseline,
                 "also save as baseline NAME, for compare; needs 4 launches or more")
      ->check(not_empty())
      ->group("Output")
      ->type_name("NAME");
  add_output(app, o.output, all_values<Form>())
      ->group("Output")
      ->description("format on stdout; jsonl: a line per event of the run\n[table]");
  add_view(app, o.view);
  for (const char* flag : {"--columns", "--sort"}) app.get_option(flag)->group("Output");
}

void add_check_flags(CLI::App& app, CheckingOptions& o) {
  add_cases(app, o.what);
  add_checking(app, o);
  add_running(app, o);
  add_launcher(app, o);
  add_retries(app, o);
  add_config(app);
  add_talk(app, o);
  add_output(app, o.output, {Form::table, Form::json, Form::csv, Form::markdown, Form::none})->group("Output");
  app.get_option("--gpus")->description("GPUs; each value is a world [1,3 if available]");
  app.get_option("--cpus")->description("virtual CPU devices; each value is a world [1,3 without a GPU]");
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

void add_tune_flags(CLI::App& app, TuneOptions& o) {
  const auto add = in_group("Sampling");
  add(app.add_option("--over", o.over, "parameters, or batch: tries values around the defaults")
          ->delimiter(',')
          ->allow_extra_args(false),
      "NAME,..");
  add(app.add_flag("--find-batch", o.find_batch, "find the largest batch that fits, by short unchecked runs"), "");
  add(app.add_option("--memory", o.memory, "limit of a rank, as in 24GiB; CPU: of its tensors [all of a GPU]")
          ->check(not_empty()),
      "SIZE");
  add_what(app, o.what);
  add(app.add_option("--launches", o.launches, "process starts that judge the best values [8]")
          ->check(between(launches_to_judge, 100)),
      "N");
  add(app.add_option("--samples", o.sampling.samples, "timed blocks per launch [5]")->check(between(1, 100000)), "N");
  add(app.add_option("--warmup", o.sampling.warmup, "steps before the first block [20]")->check(between(0, 1e6)), "N");
  add_check_switch(app, o, "check every case before timing it [auto]");
  add_audit_switch(app, o, "compare steps of the timed run with the oracle [on]");
  add_running(app, o);
  add_config(app);
  add_directory(app, o);
  add_talk(app, o);
  add_output(app, o.output, {Form::table, Form::markdown, Form::json, Form::none})->group("Output");
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

}  // namespace dpbench
