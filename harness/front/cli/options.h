// Options of the commands that start worker processes (run, check, train, tune, duel), from the command line and
// --config. Other commands define their options in commands/.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/text/print.h"
#include "harness/report/record/training.h"

namespace dpbench {

inline constexpr int max_world = 1024;

// Output format of stdout, chosen with -o.
enum class Form { table, json, jsonl, csv, markdown, none };
template <>
inline constexpr auto enum_names<Form> =
    std::to_array<std::string_view>({"table", "json", "jsonl", "csv", "markdown", "none"});

enum class ProgressChoice { automatic, plain, none };
template <>
inline constexpr auto enum_names<ProgressChoice> = std::to_array<std::string_view>({"auto", "plain", "none"});

// The launcher that started this process as a rank. automatic: detected from the environment; self: dpbench itself
// starts the ranks; env: the variables RANK, WORLD_SIZE and MASTER_ADDR describe the rank.
enum class StartedBy { automatic, self, torchrun, mpi, slurm, env };
template <>
inline constexpr auto enum_names<StartedBy> =
    std::to_array<std::string_view>({"auto", "self", "torchrun", "mpi", "slurm", "env"});

// Values of flags that can be switched off: --check is auto or off, --audit is on or off.
enum class Switch { off, automatic, on };
template <>
inline constexpr auto enum_names<Switch> = std::to_array<std::string_view>({"off", "auto", "on"});

// Options that only `check` has for the choice of cases. `check` also includes probes (models made only for checks),
// runs other backends besides the preferred one, and accepts any batch size, since test scenarios choose their own
// samples.
struct CheckSelection {
  // True: each strategy runs each workload in two of the default world sizes, chosen by the seed.
  bool draws_worlds = false;
  // True: the user named no strategies, workloads and devices. Each strategy runs only the real workloads and a quarter
  // of the probes, each in one world over one backend. Each mesh that `products` adds runs on one strategy. All of
  // these are chosen by the seed.
  bool draws_cases = false;
  int products = 0;     // highest number of axes of the meshes that `check` adds; below 2: it adds none
  int64_t layouts = 0;  // number of random layouts that `check` runs instead of all other cases
  // True if --layouts chooses the strategies (the ones with the most mesh axes) or the workloads (the ones with model
  // sizes to draw). False if the user gave --strategy or --workload, even with the value "all".
  bool names_strategies = true, names_workloads = true;
  bool drawn_seed = false;  // true: the seed is random, not chosen by the user
  // Largest world that `check` tests in full: all test scenarios on all workloads, with every backend.
  int whole_worlds = max_world;
};

// Selects the cases (configurations) to run. An empty list of strategies or workloads means all. An empty list of
// backends means the preferred one; of dtypes, f32.
struct Selection {
  std::vector<std::string> strategies, workloads, backends;
  std::vector<Dtype> dtypes;
  // Runtimes that carry out tensor operations, LibTorch's or dpbench's own; empty: LibTorch's.
  std::vector<Runtime> runtimes;
  std::vector<std::string> params;  // values of --param, like "strategy.name=v1,v2" or "name=v1,v2"
  std::vector<int> gpus, cpus;      // world sizes to run on GPUs and on CPU cores; both empty: those of default_worlds
  std::vector<std::string> meshes;  // values of --mesh, like "dp=2,tp=2"
  std::vector<int64_t> batches;
  std::optional<Scaling> scaling;  // weak or strong scaling; unset: the workload's default
  std::string model;               // value of --model, for workloads with several models; empty: their default
  int64_t scale = 1, accumulate = 1, recompute = 0;
  std::optional<double> clip_norm;
  std::vector<std::string> plugins;
  std::string python;  // interpreter for Python files among the plug-ins; empty: python3 on PATH
  std::string data_dir, filter;
  uint64_t seed = 1;
  int threads = 0;  // CPU threads per replica; 0: cores / largest world, or 1 for steps below 1 ms
  bool oversubscribe = false;
  // World sizes to run if `gpus` and `cpus` are empty. If this list is empty too, the machine's devices decide.
  std::vector<int> default_worlds;
  std::optional<CheckSelection> check;  // options of `check`; unset for other commands
  bool fixed_models = false;            // true: without --workload, leave out workloads with a choice of models
  bool whole_epochs = false;            // true for `train`: allow a batch larger than the data set
  bool baseline = true;
  // Describes the reference cases, against which speed-ups are measured: by default the baseline, else the strategy of
  // --reference. `tune --over batch` also sets their batch. A case with another batch is skipped if it cannot run.
  Reference reference;
  bool one_place = false;  // true for `train`: the default is one world of all GPUs, or of all cores without a GPU
  // Number of ranks that an outside launcher (torchrun, mpirun, srun) started in total and on this host, and the number
  // of hosts. All are 0 if there is no launcher.
  int launched_world = 0, launched_local_world = 0, launched_hosts = 0;
  std::string launched_by;

  bool draws_layouts() const { return check && check->layouts > 0; }
};

// Options shared by all commands that start worker processes.
struct MeasuringOptions {
  std::vector<std::string> argv;
  Selection what;
  Sampling sampling;
  int launches = 5;              // number of starts of the worker processes per case
  double max_noise_percent = 0;  // noise above which a case gets more launches; 0: never add launches
  double timeout_s = 30;
  int retries = 0;
  bool quick = false, dry_run = false, trace = false;
  bool check = true;            // true: each case is checked before it is timed
  bool keep_disturbed = false;  // true: blocks that other programs disturbed are kept in the results
  std::string out_dir = "results";
  std::map<std::string, std::string> tags;  // values of --tag, kept in the report's config
  Form output = Form::table;
  bool quiet = false, verbose = false;
  ProgressChoice progress = ProgressChoice::automatic;
  StartedBy started_by = StartedBy::automatic;
  bool takes_ranks = true;  // false: the command refuses to run under torchrun, mpirun or srun
};

// Columns and order of a report's table and CSV.
struct TableView {
  std::vector<std::string> columns{};  // names of the columns to show; empty: the default columns
  std::string sort{};                  // column to sort by, with ":desc" from the largest; empty: order of the report
  // True: the table has a column for the batch and shows cases of all batches in one section.
  bool batch_column = false;
};

struct RunOptions : MeasuringOptions {
  Color color = Color::automatic;
  TableView view;
  std::string save_baseline;  // name under which the run is saved as a baseline; empty: not saved
  int long_blocks = 0;  // blocks per launch of cases with steps longer than --min-time; 0: as many as for other cases
};

struct TuneOptions : RunOptions {
  // Values of --over: names of strategy parameters, or "batch". `tune` chooses the values that it tries for each of
  // these names.
  std::vector<std::string> over;
  bool find_batch = false;  // true: search for the largest batch that fits in memory, tune nothing
  std::string memory;       // value of --memory; empty: all memory of a GPU
};

struct CheckingOptions : MeasuringOptions {
  int seeds = 1;
  bool long_form = false, short_form = false;
  std::string check_filter;  // regular expression on check names; empty: all checks
  std::string junit;
  std::string dump;  // directory for dumps of weights, batches, gradients and outputs; empty: none
};

struct TrainingOptions : MeasuringOptions {
  TrainOptions training;  // training options sent to the workers
};

struct DuelOptions : MeasuringOptions {
  std::string base, now;  // the two builds to compare: program or build directory; empty: this build
  std::vector<std::string> base_plugins, new_plugins;
  bool strict = false;
  int pairs = 0;  // pairs of timed blocks to measure, one block of each build; 0: until the result is clear
  int pairs_per_launch = 5;
};

// Returns the object `config` of a report, which holds the options of the run.
Json config_json(const MeasuringOptions& options);

}  // namespace dpbench
