// Derives options of run, check, train, tune and duel from combinations of flags, and refuses contradictory flags.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/front/cli/measuring_flags.h"
#include "harness/front/cli/quantities.h"
#include "harness/front/text/paths.h"
#include "harness/front/text/text.h"
#include "harness/report/judge/duel.h"
#include "harness/report/stats/welch.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

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

}  // namespace

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

void settle_duel(const CLI::App& app, DuelOptions& o) {
  check_pairs(o);
  o.what.baseline = o.takes_ranks = false;
  o.keep_disturbed = keeps_disturbed();
  if (app.count("--min-time") == 0) o.sampling.min_sample_s = 0.2;
  o.sampling.samples = o.pairs_per_launch;
  if (!any_given(app, "What to run")) o.what.default_worlds = {1, 2};
  settle_selection(o.what);
}

}  // namespace dpbench
