// One case = one row of a report: strategy x workload x device x world x backend x scaling x dtype x batch x params.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/report/base/field.h"
#include "harness/report/record/gpu_counters.h"
#include "harness/report/record/profile.h"
#include "workloads/base/kinds.h"

namespace dpbench {

inline constexpr const char* no_backend = "none";  // of a case of one process

struct CaseSpec {
  std::string id{}, strategy{}, workload{};
  Device device = Device::cpu;
  int world = 1, processes = 1;
  std::string backend = no_backend;
  Scaling scaling = Scaling::weak;
  int64_t batch = 64;
  Dtype dtype = Dtype::f32;
  std::map<std::string, std::string> params{};
  int64_t scale = 1, accumulate = 1;
  std::optional<double> clip_norm{};
  uint64_t seed = 1;
  std::string data_dir{};
  int threads = 1;
  bool oversubscribe = false, baseline = false;

  int64_t global_batch() const { return scaling == Scaling::strong ? batch : batch * world; }
};

template <>
struct Table<CaseSpec> {
  using S = CaseSpec;
  static constexpr const char* name = "case";
  static constexpr std::tuple fields{
      Field{"id", "-", &S::id, "unique in a report; made of the other fields", range::not_empty},
      Field{"strategy", "-", &S::strategy, "how a step is shared out", range::not_empty},
      Field{"workload", "-", &S::workload, "what is trained", range::not_empty},
      Field{"device", "-", &S::device, "cpu: virtual devices, each some cores"},
      Field{"world", "replicas", &S::world, "copies of the model", range::positive},
      Field{"processes", "processes", &S::processes, "world for a strategy of ranks, else 1", range::positive},
      Field{"backend", "-", &S::backend, "of the collectives; none for one process", range::not_empty},
      Field{"scaling", "-", &S::scaling, "strong: batch is the global one; weak: that of each device"},
      Field{"batch", "samples", &S::batch, "of a step (strong) or of a device (weak)", range::positive},
      Field{"dtype", "-", &S::dtype, "bf16 is autocast over float32 parameters"},
      Field{"params", "-", &S::params, "the strategy's parameters that are not at their default"},
      later(Field{"scale", "factor", &S::scale, "width and depth of the model", range::positive}),
      later(Field{"accumulate", "micro-batches", &S::accumulate, "of a step", range::positive}),
      later(Field{"clip_norm", "norm", &S::clip_norm, "limit on the norm of all gradients; null: none",
                  range::above_zero}),
      later(Field{"seed", "number", &S::seed, "of models, dropout and the order of samples and cases",
                  range::not_negative}),
      later(Field{"data_dir", "-", &S::data_dir, "empty: drawn digits"}),
      later(Field{"threads", "threads", &S::threads, "of each replica", range::positive}),
      later(Field{"oversubscribe", "-", &S::oversubscribe, "rank r runs on GPU r mod count"}),
      later(Field{"baseline", "-", &S::baseline, "added for comparison"})};
};

// "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32" then "/name=value" for every parameter, scale, accumulation that is not the
// default.
std::string case_id(const CaseSpec& spec);

// What two cases may differ in. Batches are equal: the global ones under strong scaling, each device's under weak.
struct Except {
  bool strategy = false;  // its parameters, backend and scaling too: a case and the baseline
  bool world = false;
};
bool same_setting(const CaseSpec& one, const CaseSpec& other, Except except);

struct Sampling {
  int64_t warmup = 20;
  int samples = 10;
  int64_t steps = 0;
  double min_sample_s = 0.1, max_time_s = 60;
  bool measure_peak = false;
  std::string trace_dir = {};
};

template <>
struct Table<Sampling> {
  using S = Sampling;
  static constexpr const char* name = "sampling";
  static constexpr std::tuple fields{
      Field{"warmup", "steps", &S::warmup, "before the first block; four more of each size where steps are recorded"},
      Field{"samples", "blocks", &S::samples, "of a launch, at most"},
      Field{"steps", "steps", &S::steps, "of a block; 0: as many as min_sample_s takes, agreed by rank 0"},
      Field{"min_sample_s", "s", &S::min_sample_s, "least length of a block"},
      Field{"max_time_s", "s", &S::max_time_s, "of all blocks of a case, over its launches"},
      later(Field{"measure_peak", "-", &S::measure_peak, "also measure what the machine can do at most"}),
      later(Field{"trace_dir", "-", &S::trace_dir, "where ranks write traces to; empty: none"})};
};

// What one rank measured in one launch.
struct RankRecord {
  int rank = 0, threads = 1;
  int64_t steps_per_sample = 0;
  double rows_per_step = 0;
  std::vector<int64_t> samples_ns{};
  int64_t step_p50_ns = 0, step_p90_ns = 0, step_p99_ns = 0;
  std::map<std::string, double> phases_ns{};
  int64_t peak_rss_bytes = 0, own_rss_bytes = 0, peak_device_bytes = 0, peak_device_reserved_bytes = 0;
  double first_loss = NAN, last_loss = NAN;
  std::string parameters_hash{};
  std::optional<Profile> profile{};
  std::optional<Peak> peak{};
  std::vector<GpuCounters> gpus{};
  std::vector<std::string> warnings{};
};

template <>
struct Table<RankRecord> {
  using R = RankRecord;
  static constexpr const char* name = "rank";
  static constexpr std::tuple fields{
      Field{"rank", "rank", &R::rank, "which process", range::not_negative},
      later(Field{"threads", "threads", &R::threads, "of each replica", range::positive}),
      Field{"steps_per_sample", "steps", &R::steps_per_sample, "of a block", range::not_negative},
      later(Field{"rows_per_step", "samples", &R::rows_per_step,
                  "of all ranks together, mean over a block; 0: not known", range::not_negative}),
      Field{"samples_ns", "ns", &R::samples_ns, "each block of steps_per_sample steps", range::positive},
      later(Field{"step_p50_ns", "ns", &R::step_p50_ns, "of single steps, host clock", range::not_negative}),
      later(Field{"step_p90_ns", "ns", &R::step_p90_ns, "likewise", range::not_negative}),
      later(Field{"step_p99_ns", "ns", &R::step_p99_ns, "likewise", range::not_negative}),
      Field{"phases_ns", "ns", &R::phases_ns, "by phase, mean of a watched step"},
      later(Field{"peak_rss_bytes", "bytes", &R::peak_rss_bytes, "of the process", range::not_negative}),
      later(Field{"own_rss_bytes", "bytes", &R::own_rss_bytes,
                  "of it, without pages of files and what earlier cases left; since 1.4; 0: not known",
                  range::not_negative}),
      later(Field{"peak_device_bytes", "bytes", &R::peak_device_bytes, "allocated on a GPU; 0 on the CPU",
                  range::not_negative}),
      later(Field{"peak_device_reserved_bytes", "bytes", &R::peak_device_reserved_bytes,
                  "reserved by the allocator on a GPU; 0 on the CPU", range::not_negative}),
      later(Field{"first_loss", "loss", &R::first_loss, "of the first step; null: not finite"}),
      later(Field{"last_loss", "loss", &R::last_loss, "of the last step; null: not finite"}),
      later(Field{"parameters_hash", "-", &R::parameters_hash, "after timing; must be equal on all ranks"}),
      later(Field{"profile", "-", &R::profile, "of an untimed, watched repeat; since 1.2"}),
      later(Field{"peak", "-", &R::peak, "what the machine can do; in the first launch; since 1.2"}),
      later(Field{"gpus", "-", &R::gpus, "those that this rank used; since 1.3"}),
      later(Field{"warnings", "-", &R::warnings, "what the rank noticed"})};
};

struct LaunchRecord {
  int index = 0;
  std::vector<RankRecord> ranks{};
};

template <>
struct Table<LaunchRecord> {
  using L = LaunchRecord;
  static constexpr const char* name = "launch";
  static constexpr std::tuple fields{
      Field{"index", "number", &L::index, "in the order of launches", range::not_negative},
      Field{"ranks", "-", &L::ranks, "each of its processes"}};
};

enum class CheckStatus { passed, failed, skipped };
template <>
inline constexpr auto enum_names<CheckStatus> = std::to_array<std::string_view>({"passed", "failed", "skipped"});

struct CheckRow {
  std::string name{};
  CheckStatus status = CheckStatus::passed;
  std::string compared{};
  std::optional<double> error{}, bound{};
  std::string detail{}, likely{};
};

template <>
struct Table<CheckRow> {
  using C = CheckRow;
  static constexpr const char* name = "check";
  static constexpr std::tuple fields{
      Field{"name", "-", &C::name, "what a user greps for: gradient-vs-baseline, output-shape, ...", range::not_empty},
      Field{"status", "-", &C::status, "passed: error <= bound"},
      later(Field{"compared", "-", &C::compared, "what with what, in a few words"}),
      later(Field{"error", "of the check", &C::error, "as compared says; null: not of that kind, or not finite"}),
      later(Field{"bound", "of the check", &C::bound, "what the error may be at most"}),
      later(Field{"detail", "-", &C::detail,
                  "failed: parameter, index, rank, step, expected, found; skipped: the reason"}),
      later(Field{"likely", "-", &C::likely, "failed: the mistake it looks like, if known"})};
};

}  // namespace dpbench
