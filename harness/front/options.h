// What the user asked for, read from the command line and --config, before anything is looked up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/training.h"

namespace dpbench {

class World;

inline constexpr int kMaxWorld = 1024;

// What to run: shared by run and check. An empty list means all.
struct Selection {
  std::vector<std::string> strategies, workloads, backends, dtypes;
  std::vector<std::string> params;  // "strategy.name=v1,v2" or "name=v1,v2"
  std::vector<int> gpus, cpus;      // worlds; both empty: the machine's own
  std::vector<int64_t> batches;
  std::string scaling;  // empty: the workload's own
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
  int whole_worlds = kMaxWorld;     // .. in larger worlds those besides the best one only where a backend can matter
  bool own_rows = false;            // check: its scenarios choose the rows of a step, whatever a batch would be
  bool whole_epochs = false;        // train: a batch larger than the data is a step of all of them
  bool baseline = true;
  bool one_place = false;  // neither gpus nor cpus given: all GPUs, else all cores
  // The ranks that an outside launcher has started, in all and on this host, and on how many hosts; 0: none, the worlds are ours
  // to choose.
  int launched_world = 0, launched_local_world = 0, launched_hosts = 0;
  std::string launched_by;
};

struct CheckOptions {
  int seeds = 1;
  bool long_form = false;
  std::string filter;  // on the names of checks
  std::string junit;
  std::string dump;  // directory for weights, batches, gradients and outputs
};

// compare, export, report, validate: reports that are there already.
struct StoredRuns {
  std::vector<std::string> runs;  // each a file, a directory, latest, latest~N or the name of a baseline
  std::string results = "results";
  std::vector<std::string> fail_on;
  std::string gate, to, annotations = "auto";
  bool require_baseline = false, allow_env_diff = false, strict = false;
  std::string html, charts, collectives, projection;  // report: what to write, what else to show
};

// Two builds measured in turn.
struct DuelOptions {
  std::string base, now;  // a program or a directory that holds one; empty: this build
  std::vector<std::string> base_plugins, new_plugins;
  int pairs = 0;  // exactly so many; 0: until it is clear
  int pairs_per_launch = 5;
};

// Worlds beyond this machine, from a stored run.
struct ProjectOptions {
  std::vector<int> to, from;
  std::string link, algorithm = "auto", filter;
  int hosts = 0;  // devices of a host
};

struct Options {
  std::string command = "run";
  std::string topic;  // list: what to show
  Selection what;
  Sampling sampling;
  int launches = 5;
  double max_noise_percent = 0;  // 0: never adds launches
  double timeout_s = 30;
  int retries = 0;
  bool quick = false, dry_run = false, trace = false;
  std::string check = "auto";  // auto | off
  std::string out_dir = "results", output = "table";
  bool quiet = false, verbose = false;
  std::string color = "auto", progress = "auto";
  CheckOptions checking;
  TrainOptions training;
  StoredRuns stored;
  DuelOptions duel;
  ProjectOptions project;
  std::string save_baseline;      // name to keep the report under
  std::string launcher = "auto";  // auto | self | torchrun | mpi | slurm | env
  World* world = nullptr;         // the ranks that this launcher has started beside us
  std::vector<std::string> argv;
};

}  // namespace dpbench
