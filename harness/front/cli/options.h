// What the user asked for, read from the command line and --config, before anything is looked up: a struct for each
// command that starts workers. The other commands have theirs in commands/.
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

// -o: what is written to stdout.
enum class Form { table, json, csv, markdown, none };
template <>
inline constexpr auto enum_names<Form> = std::to_array<std::string_view>({"table", "json", "csv", "markdown", "none"});

enum class ProgressChoice { automatic, plain, none };
template <>
inline constexpr auto enum_names<ProgressChoice> = std::to_array<std::string_view>({"auto", "plain", "none"});

// Who started this process: a launcher as one rank of several, or the user, for whom dpbench starts the ranks itself.
enum class StartedBy { automatic, self, torchrun, mpi, slurm, env };
template <>
inline constexpr auto enum_names<StartedBy> =
    std::to_array<std::string_view>({"auto", "self", "torchrun", "mpi", "slurm", "env"});

// The words of a flag that is on unless it is switched off.
enum class Switch { off, automatic };
template <>
inline constexpr auto enum_names<Switch> = std::to_array<std::string_view>({"off", "auto"});

// What to run. An empty list means all.
struct Selection {
  std::vector<std::string> strategies, workloads, backends;
  std::vector<Dtype> dtypes;
  std::vector<std::string> params;  // "strategy.name=v1,v2" or "name=v1,v2"
  std::vector<int> gpus, cpus;      // worlds; both empty: the machine's own
  std::vector<int64_t> batches;
  std::optional<Scaling> scaling;  // nothing: the workload's own
  int64_t scale = 1, accumulate = 1;
  std::optional<double> clip_norm;
  std::vector<std::string> plugins;
  std::string data_dir, filter;
  uint64_t seed = 1;
  int threads = 0;  // 0: cores / largest world
  bool oversubscribe = false;
  std::vector<int> default_worlds;  // where neither gpus nor cpus is given; empty: the machine's own
  bool probes = false;              // "all workloads" includes those made for checking alone
  bool every_backend = false;       // no backend given means each that fits, not the best one
  int whole_worlds = max_world;     // .. in larger worlds those besides the best one only where a backend can matter
  bool own_rows = false;            // check: its scenarios choose the rows of a step, whatever a batch would be
  bool whole_epochs = false;        // train: a batch larger than the data is a step of all of them
  bool baseline = true;
  bool one_place = false;  // neither gpus nor cpus given: all GPUs, else all cores
  // The ranks that an outside launcher has started, in all and on this host, and on how many hosts; 0: none, the worlds
  // are ours to choose.
  int launched_world = 0, launched_local_world = 0, launched_hosts = 0;
  std::string launched_by;
};

// What the commands that start workers have in common.
struct MeasuringOptions {
  std::vector<std::string> argv;
  Selection what;
  Sampling sampling;
  int launches = 5;
  double max_noise_percent = 0;  // 0: never adds launches
  double timeout_s = 30;
  int retries = 0;
  bool quick = false, dry_run = false, trace = false;
  bool check = true;  // before timing
  std::string out_dir = "results";
  Form output = Form::table;
  bool quiet = false, verbose = false;
  ProgressChoice progress = ProgressChoice::automatic;
  StartedBy started_by = StartedBy::automatic;
  bool takes_ranks = true;  // can work with ranks that a launcher has started
};

struct RunOptions : MeasuringOptions {
  Color color = Color::automatic;
  std::string save_baseline;  // name to keep the report under
};

// Of `check`.
struct CheckingOptions : MeasuringOptions {
  int seeds = 1;
  bool long_form = false;
  std::string check_filter;  // on the names of checks
  std::string junit;
  std::string dump;  // directory for weights, batches, gradients and outputs
};

// Of `train`.
struct TrainingOptions : MeasuringOptions {
  TrainOptions training;  // the part that the workers are told
};

// Two builds measured in turn.
struct DuelOptions : MeasuringOptions {
  std::string base, now;  // a program or a directory that holds one; empty: this build
  std::vector<std::string> base_plugins, new_plugins;
  bool strict = false;
  int pairs = 0;  // exactly so many; 0: until it is clear
  int pairs_per_launch = 5;
};

// The config block of a report: the options as they were understood.
Json config_json(const MeasuringOptions& options);

}  // namespace dpbench
