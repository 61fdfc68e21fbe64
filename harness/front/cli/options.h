// Options of the commands that start workers, as given on the command line and in --config. Other commands define
// theirs in commands/.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/front/text/print.h"
#include "harness/report/record/training.h"

namespace dpbench {

inline constexpr int max_world = 1024;

// -o: format of stdout.
enum class Form { table, json, csv, markdown, none };
template <>
inline constexpr auto enum_names<Form> = std::to_array<std::string_view>({"table", "json", "csv", "markdown", "none"});

enum class ProgressChoice { automatic, plain, none };
template <>
inline constexpr auto enum_names<ProgressChoice> = std::to_array<std::string_view>({"auto", "plain", "none"});

// Launcher that started this process as a rank; `self` if dpbench starts the ranks.
enum class StartedBy { automatic, self, torchrun, mpi, slurm, env };
template <>
inline constexpr auto enum_names<StartedBy> =
    std::to_array<std::string_view>({"auto", "self", "torchrun", "mpi", "slurm", "env"});

// Values of a flag that is on by default.
enum class Switch { off, automatic };
template <>
inline constexpr auto enum_names<Switch> = std::to_array<std::string_view>({"off", "auto"});

// Cases to run. An empty list means all.
struct Selection {
  std::vector<std::string> strategies, workloads, backends;
  std::vector<Dtype> dtypes;
  std::vector<std::string> params;  // "strategy.name=v1,v2" or "name=v1,v2"
  std::vector<int> gpus, cpus;      // worlds; both empty: chosen by the machine
  std::vector<int64_t> batches;
  std::optional<Scaling> scaling;  // unset: the workload's
  int64_t scale = 1, accumulate = 1;
  std::optional<double> clip_norm;
  std::vector<std::string> plugins;
  std::string data_dir, filter;
  uint64_t seed = 1;
  int threads = 0;  // 0: cores / largest world
  bool oversubscribe = false;
  std::vector<int> default_worlds;  // used if gpus and cpus are empty; empty: chosen by the machine
  bool probes = false;              // "all workloads" includes those made for checks only
  bool every_backend = false;       // without --backend: each suitable one, not only the best
  int whole_worlds = max_world;     // in larger worlds, only backends that can change results
  bool own_rows = false;            // check: scenarios choose the samples of a step, not --batch
  bool whole_epochs = false;        // train: a batch larger than the data is one step over all samples
  bool baseline = true;
  bool one_place = false;  // without gpus and cpus: all GPUs, else all cores
  // Ranks started by an outside launcher in total and on this host, and the number of hosts; 0: no launcher.
  int launched_world = 0, launched_local_world = 0, launched_hosts = 0;
  std::string launched_by;
};

// Options shared by all commands that start workers.
struct MeasuringOptions {
  std::vector<std::string> argv;
  Selection what;
  Sampling sampling;
  int launches = 5;
  double max_noise_percent = 0;  // 0: never add launches
  double timeout_s = 30;
  int retries = 0;
  bool quick = false, dry_run = false, trace = false;
  bool check = true;  // before timing
  std::string out_dir = "results";
  Form output = Form::table;
  bool quiet = false, verbose = false;
  ProgressChoice progress = ProgressChoice::automatic;
  StartedBy started_by = StartedBy::automatic;
  bool takes_ranks = true;  // supports ranks started by a launcher
};

struct RunOptions : MeasuringOptions {
  Color color = Color::automatic;
  std::string save_baseline;  // baseline name
};

struct CheckingOptions : MeasuringOptions {
  int seeds = 1;
  bool long_form = false;
  std::string check_filter;  // regular expression on check names
  std::string junit;
  std::string dump;  // directory for weights, batches, gradients and outputs
};

struct TrainingOptions : MeasuringOptions {
  TrainOptions training;  // sent to the workers
};

struct DuelOptions : MeasuringOptions {
  std::string base, now;  // program or build directory; empty: this build
  std::vector<std::string> base_plugins, new_plugins;
  bool strict = false;
  int pairs = 0;  // 0: until clear
  int pairs_per_launch = 5;
};

// Returns the `config` block of a report.
Json config_json(const MeasuringOptions& options);

}  // namespace dpbench
