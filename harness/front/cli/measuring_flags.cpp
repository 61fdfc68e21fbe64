#include "harness/front/cli/measuring_flags.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/front/cli/config_file.h"
#include "harness/front/cli/flags.h"
#include "harness/front/cli/quantities.h"
#include "harness/front/cli/tags.h"
#include "harness/front/text/paths.h"
#include "harness/report/judge/duel.h"
#include "harness/report/stats/welch.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"
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
          ->check(between(1, kMaxScale)),
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

bool any_given(const CLI::App& app, const std::string& group) {
  const auto options = app.get_options([&](const CLI::Option* option) { return option->get_group() == group; });
  return std::any_of(options.begin(), options.end(), [](const CLI::Option* option) { return option->count() > 0; });
}

constexpr const char* all = "all";  // the value "all" of --strategy and --workload, same as an empty list

// Replaces the value "all" by the empty list, which means all. Throws UsageError if the list has other names too: they
// would be ignored and might be misspelled.
void settle_all(const std::string& flag, std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), all) == names.end()) return;
  for (const auto& name : names)
    if (name != all)
      throw UsageError(flag + " " + one_line(join(names, ","), 100) + ": 'all' excludes '" + one_line(name, 60) +
                       "'. Use " + flag + " all, or names only");
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

bool keeps_disturbed() {
  const char* keep = std::getenv("DPBENCH_KEEP_DISTURBED");
  return keep && std::string(keep) == "1";
}

// Throws UsageError if the run is saved as a baseline with fewer launches than `compare` needs to judge against it.
void check_baseline_launches(const RunOptions& o) {
  if (o.save_baseline.empty() || o.launches >= launches_to_judge) return;
  const std::string needed = std::to_string(launches_to_judge);
  throw UsageError("--save-baseline '" + one_line(o.save_baseline, 60) + "' needs " + needed +
                   " launches, else compare could never judge; this run has " + std::to_string(o.launches) +
                   ". Add --launches " + needed);
}

// Derives the options of `run`. --quick shortens the blocks (timed runs of steps), and lowers the numbers of launches
// (starts of the worker processes), blocks and warm-up steps unless the user set them. Without any flag of the help
// groups "What to run" and "Sampling", --quick is implied. Workloads with a choice of models (transformers) are then
// left out: checking one takes longer than all others together.
void settle_run(const CLI::App& app, RunOptions& o) {
  settle_selection(o.what);
  o.keep_disturbed = keeps_disturbed();
  const bool chosen = any_given(app, "What to run") || any_given(app, "Sampling");
  if (!any_given(app, "What to run")) o.what.default_worlds = chosen ? std::vector<int>{1, 2} : std::vector<int>{2};
  if (!chosen) o.quick = o.what.fixed_models = true;
  if (o.quick && app.count("--launches") == 0) o.launches = 1;
  check_baseline_launches(o);
  if (!o.quick) return;
  // Cases with a step above min_sample_s get six blocks, the fewest for a 95 % interval: the range (minimum to maximum)
  // of six blocks contains the median with 97 % confidence, the range of five with less than 95 %.
  if (app.count("--samples") == 0) o.sampling.samples = 9, o.long_blocks = 6;
  o.sampling.min_sample_s = 0.025;
  if (app.count("--warmup") == 0) o.sampling.warmup = 5;
}

bool names_places(const Selection& what) { return !what.meshes.empty() || !what.cpus.empty() || !what.gpus.empty(); }

// Sets how many axes the meshes have that `check` adds: two axes on 4 ranks, with --long also three axes on 8 ranks.
// With --mesh, --cpus, --gpus or --recompute, `check` adds no meshes. Throws UsageError if --layouts, which checks
// random layouts instead, is given with a flag that sets a part of the layout.
void settle_layouts(CheckingOptions& o) {
  const bool placed = names_places(o.what);
  if (!placed && o.what.recompute == 0) o.what.check->products = o.long_form ? 3 : 2;
  if (!o.what.draws_layouts()) return;
  o.what.check->names_strategies = o.what.strategies.empty();
  o.what.check->names_workloads = o.what.workloads.empty();
  if (placed || !o.what.model.empty() || !o.what.params.empty() || o.what.recompute > 0 || !o.what.dtypes.empty() ||
      !o.what.runtimes.empty() || !o.what.backends.empty())
    throw UsageError(
        "--layouts draws meshes, models, parameters, dtypes and backends, and runs LibTorch's runtime: leave out "
        "--mesh, --cpus, --gpus, --model, --param, --recompute, --dtype, --runtime and --backend");
}

// Derives the options of `check`: one launch (start of the worker processes), no baselines, a random seed unless --seed
// is given, and world sizes (such as 3) that expose errors in rank order and data distribution.
void settle_check(const CLI::App& app, CheckingOptions& o) {
  o.launches = 1;
  o.what.baseline = false;
  CheckSelection& check = *o.what.check;
  check.whole_worlds = !o.what.workloads.empty() && !o.short_form && check.layouts == 0 ? max_world
                       : o.long_form                                                    ? 3
                                                                                        : 0;
  check.drawn_seed = app.count("--seed") == 0;
  if (check.drawn_seed) o.what.seed = 1 + std::random_device{}() % 99999;
  const int large = 4 + static_cast<int>(o.what.seed % 5);
  o.what.default_worlds = o.long_form ? std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8} : std::vector<int>{1, 2, 3, large};
  // Each strategy runs each workload in two of the default world sizes. With --long, or if the user chose both
  // strategies and workloads (few cases), it runs them in all.
  check.draws_worlds = !o.long_form && (o.what.strategies.empty() || o.what.workloads.empty());
  check.draws_cases =
      check.draws_worlds && o.what.strategies.empty() && o.what.workloads.empty() && !names_places(o.what);
  o.check_filter = std::exchange(o.what.filter, "");
  settle_layouts(o);
  settle_selection(o.what);
}

// Derives the options of `tune --find-batch`. By default, each batch size is timed for 3 blocks after 2 warm-up steps,
// without checks.
void settle_find_batch(const CLI::App& app, TuneOptions& o) {
  if (!o.over.empty() || o.what.batches.size() > 1)
    throw UsageError("--find-batch tries batches from one --batch on; leave out --over and other batches");
  if (app.count("--launches") > 0)
    throw UsageError("--find-batch starts the processes once for each batch; leave out --launches");
  (void)parse_memory(o.memory);  // throws UsageError for a bad --memory before anything runs
  o.launches = 1;
  if (app.count("--samples") == 0) o.sampling.samples = 3;
  if (app.count("--warmup") == 0) o.sampling.warmup = 2;
  if (app.count("--check") == 0) o.check = false;
  if (app.count("--audit") == 0) o.sampling.audit = false;
}

// Derives the options of `tune`: cases of one strategy, each timed in pairs of blocks, one block of the case and one of
// the case with default parameter values. --find-batch measures no such pairs and has its own options.
void settle_tune(const CLI::App& app, TuneOptions& o) {
  settle_selection(o.what);
  o.keep_disturbed = keeps_disturbed();
  o.what.baseline = o.takes_ranks = false;
  if (app.count("--gpus") + app.count("--cpus") == 0) o.what.default_worlds = {2};
  if (o.find_batch) return settle_find_batch(app, o);
  if (!o.memory.empty()) throw UsageError("--memory is for --find-batch");
  if (o.what.strategies.size() != 1) throw UsageError("tune needs one strategy: --strategy NAME");
  if (o.over.empty() && o.what.params.empty())
    throw UsageError("tune needs something to try: --over batch, --over NAME,.. or --param NAME=V,..; " +
                     shell_command("list " + o.what.strategies.front()) + " prints them");
  o.what.reference.strategy = o.what.strategies.front();
  // By default 8 launches with 5 pairs of blocks each. `tune` uses the verdict of `duel`, which judges a case after 40
  // pairs too; the error rates of this verdict were measured with 5 pairs per launch.
  if (app.count("--launches") == 0) o.launches = 8;
  if (app.count("--samples") == 0) o.sampling.samples = DuelOptions().pairs_per_launch;
}

// Derives the options of `train`: one case, one launch (start of the worker processes), and no baseline.
void settle_train(const CLI::App&, TrainingOptions& o) {
  o.launches = 1;
  o.what.baseline = false;
  o.what.one_place = o.what.whole_epochs = true;
  const auto require_one = [](const char* flag, const std::vector<std::string>& names) {
    if (names.size() != 1 || names[0] == all)
      throw UsageError(std::string("train needs one ") + flag +
                       ", as in: " + shell_command("train --workload mnist-mlp --strategy ddp --cpus 2"));
  };
  require_one("--strategy", o.what.strategies);
  require_one("--workload", o.what.workloads);
  if (!o.training.checkpoint.empty() && o.training.checkpoint_every == 0)
    throw UsageError("--checkpoint '" + one_line(o.training.checkpoint, 100) + "' needs --checkpoint-every STEPS");
  // Resolves the path of a file, for comparing it with another path. Returns `file` itself if that fails: the worker
  // reports an unreadable file with the file's purpose.
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

// Throws UsageError if a duel starts both builds fewer times than a verdict needs. A duel measures --pairs pairs of
// timed blocks, one block of each build, and restarts both builds after every --pairs-per-launch pairs.
void check_pairs(const DuelOptions& o) {
  const int pairs = o.pairs > 0 ? o.pairs : DuelRule().looks.back();
  const int launches = (pairs + o.pairs_per_launch - 1) / o.pairs_per_launch;
  if (launches >= launches_to_judge) return;
  throw UsageError("--pairs-per-launch " + std::to_string(o.pairs_per_launch) + ": " + std::to_string(pairs) +
                   " pairs take fewer than the " + std::to_string(launches_to_judge) +
                   " launches that a verdict needs. Use " + std::to_string((pairs - 1) / (launches_to_judge - 1)) +
                   " or less");
}

void settle_duel(const CLI::App& app, DuelOptions& o) {
  check_pairs(o);
  o.what.baseline = o.takes_ranks = false;
  o.keep_disturbed = keeps_disturbed();
  if (app.count("--min-time") == 0) o.sampling.min_sample_s = 0.2;
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
  settle_selection(o.what);
}

}  // namespace dpbench
