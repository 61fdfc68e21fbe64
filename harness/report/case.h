// One case = one row of a report: strategy x workload x device x world x backend x scaling x dtype x batch x params.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/gpu_counters.h"
#include "harness/report/profile.h"

namespace dpbench {

struct CaseSpec {
  std::string id;  // case_id() of the rest, unique in a report
  std::string strategy, workload;
  std::string device = "cpu";    // cpu | cuda
  int world = 1;                 // model replicas
  int processes = 1;             // world for a strategy of ranks, else 1
  std::string backend = "none";  // of the collectives; none for one process
  std::string scaling = "weak";  // strong: batch is the global batch, weak: the rows per device
  int64_t batch = 64;
  std::string dtype = "f32";  // f32 | f64 | bf16
  std::map<std::string, std::string> params;
  int64_t scale = 1;
  int64_t accumulate = 1;
  std::optional<double> clip_norm;
  uint64_t seed = 1;
  std::string data_dir;        // empty: drawn digits
  int threads = 1;             // of each replica
  bool oversubscribe = false;  // rank r on GPU r mod count
  bool baseline = false;       // added for comparison

  int64_t global_batch() const { return scaling == "strong" ? batch : batch * world; }
};

// "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32" then "/name=value" for every parameter, scale, accumulation that is not the
// default.
std::string case_id(const CaseSpec& spec);

struct Sampling {
  int64_t warmup = 20;  // steps, a fixed count
  int samples = 10;     // of a launch
  int64_t steps = 0;    // of a sample; 0: as many as min_sample_s takes, agreed by rank 0
  double min_sample_s = 0.1;
  double max_time_s = 60;  // sampling budget of a case over its launches
  bool measure_peak = false;  // also what the machine can do at most
  std::string trace_dir = {};  // where ranks write traces to; empty: none
};

// What one rank measured in one launch.
struct RankRecord {
  int rank = 0;
  int threads = 1;
  int64_t steps_per_sample = 0;
  double rows_per_step = 0;                                   // of all ranks together, mean over a sample
  std::vector<int64_t> samples_ns;                            // each a block of steps_per_sample steps
  int64_t step_p50_ns = 0, step_p90_ns = 0, step_p99_ns = 0;  // of single steps, host clock
  std::map<std::string, double> phases_ns;                    // mean of a watched step
  int64_t peak_rss_bytes = 0;
  int64_t own_rss_bytes = 0;  // of it, without files' pages and what earlier cases left; 0: not told
  int64_t peak_device_bytes = 0, peak_device_reserved_bytes = 0;  // of a GPU, as the allocator counts; 0 on the CPU
  double first_loss = 0, last_loss = 0;
  std::string parameters_hash;  // after timing; must be equal on all ranks
  std::optional<Profile> profile{};
  std::optional<Peak> peak{};  // measured in the first launch
  std::vector<GpuCounters> gpus{};
  std::vector<std::string> warnings;
};

struct LaunchRecord {
  int index = 0;
  std::vector<RankRecord> ranks;
};

struct CheckRow {
  std::string name{};      // what a user greps for: gradient-vs-baseline, output-shape, ...
  std::string status{};    // passed | failed | skipped
  std::string compared{};  // what with what, in a few words
  std::optional<double> error{}, bound{};
  std::string detail{};  // failed: parameter, index, rank, step, expected, found; skipped: why
  std::string likely{};  // failed: the mistake it looks like, if known
};

}  // namespace dpbench
