// A case is one line of a result: strategy x workload x device x world x backend x scaling x dtype x batch x params.
#pragma once

#include <array>
#include <cmath>
#include <compare>
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
#include "workloads/base/mesh_shape.h"

namespace dpbench {

inline constexpr const char* no_backend = "none";  // backend name of a case that runs in a single process

// The settings with which a case's processes are started. Cases with equal settings can share a group of processes.
struct ProcessSettings {
  std::string backend = no_backend;
  Device device = Device::cpu;
  int processes = 1, threads = 1;
  Runtime runtime = Runtime::torch;
  bool python = false;  // each rank runs in a Python interpreter; this flag is not in the report

  auto operator<=>(const ProcessSettings&) const = default;
};

struct CaseSpec : ProcessSettings {
  std::string id{}, strategy{}, workload{};
  int world = 1;
  Scaling scaling = Scaling::weak;
  int64_t batch = 64;
  Dtype dtype = Dtype::f32;
  std::map<std::string, std::string> params{};
  std::string mesh{}, model{};
  int64_t scale = 1, accumulate = 1, recompute = 0;
  std::optional<double> clip_norm{};
  uint64_t seed = 1;
  std::string data_dir{};
  bool oversubscribe = false, baseline = false;

  // Compares two cases by all settings. Without this operator, CaseSpec would inherit the == of ProcessSettings, which
  // ignores the members of CaseSpec.
  auto operator<=>(const CaseSpec&) const = default;
  // Number of replicas that train on different samples: all ranks, or fewer if ranks along some axes of the mesh share
  // samples.
  int replicas() const { return data_place(parse_mesh(mesh), world, 0).replicas; }
  int64_t global_batch() const { return scaling == Scaling::strong ? batch : batch * replicas(); }
};

template <>
struct Table<CaseSpec> {
  using S = CaseSpec;
  static constexpr const char* name = "case";
  static constexpr std::tuple fields{
      Field{"id", "-", &S::id, "identifier of the case, unique in a report; composed of the other fields",
            range::not_empty},
      Field{"strategy", "-", &S::strategy, "parallelism strategy", range::not_empty},
      Field{"workload", "-", &S::workload, "model and data that are trained", range::not_empty},
      Field{"device", "-", &S::device, "device type; cpu: each virtual device is a set of cores"},
      Field{"world", "devices", &S::world, "number of devices; each has a replica (copy of the model) or a part of one",
            range::positive},
      later(Field{"mesh", "-", &S::mesh, "the ranks as a grid with named axes; empty: all on the axis dp; since 1.6"}),
      Field{"processes", "processes", &S::processes,
            "number of processes: world if the strategy runs one rank per device, else 1", range::positive},
      Field{"backend", "-", &S::backend, "backend of the collectives; none for one process", range::not_empty},
      Field{"scaling", "-", &S::scaling, "strong: batch is the global batch; weak: batch is per device"},
      Field{"batch", "samples", &S::batch, "batch size: global (strong scaling) or per device (weak scaling)",
            range::positive},
      Field{"dtype", "-", &S::dtype, "floating-point type; bf16 is autocast with float32 parameters"},
      later(Field{
          "runtime", "-", &S::runtime,
          "who runs layers, backward passes and small allocations. torch: LibTorch; fast: dpbench's own code, the "
          "only runtime before 1.5"}),
      Field{"params", "-", &S::params, "strategy parameters that differ from their defaults"},
      later(Field{"model", "-", &S::model, "shape of the model; empty: the workload's default; since 1.6"}),
      later(Field{"scale", "factor", &S::scale, "factor on the model's width and depth", range::positive}),
      later(
          Field{"accumulate", "micro-batches", &S::accumulate, "micro-batches accumulated per step", range::positive}),
      later(Field{"recompute", "blocks", &S::recompute,
                  "blocks of the model of which only the input is kept until the backward pass runs them again; 0: all "
                  "activations are kept; since 1.6",
                  range::not_negative}),
      later(Field{"clip_norm", "norm", &S::clip_norm, "gradient clipping limit on the global norm; null: no clipping",
                  range::above_zero}),
      later(Field{"seed", "number", &S::seed,
                  "random seed for model initialisation, dropout and the order of samples and cases",
                  range::not_negative}),
      later(Field{"data_dir", "-", &S::data_dir, "directory or file of the data set; empty: the built-in samples"}),
      later(Field{"threads", "threads", &S::threads, "threads per replica", range::positive}),
      later(Field{"oversubscribe", "-", &S::oversubscribe,
                  "ranks may share GPUs: rank r runs on GPU r mod (number of GPUs)"}),
      later(Field{"baseline", "-", &S::baseline, "this case is the baseline of other cases"})};
};

// The fields of ProcessSettings: the fields of Table<CaseSpec> that are members of ProcessSettings, and `python`, which
// reports do not contain.
template <>
struct Table<ProcessSettings> {
  static constexpr const char* name = "process_settings";
  static constexpr auto fields = std::tuple_cat(
      fields_of<ProcessSettings>(Table<CaseSpec>::fields),
      std::tuple(later(Field{"python", "-", &ProcessSettings::python, "each rank runs in a Python interpreter"})));
};

// Returns a case's id, e.g. "ddp/mnist-mlp/cpu:2/shm/weak/b64/f32", followed by the runtime if it is not torch's, and
// by "/name=value" for each mesh, model, scale, accumulation, recomputation or parameter that differs from its default.
std::string case_id(const CaseSpec& spec);

// Returns "/name=value" for the mesh, model, scale, accumulation and recomputation if they differ from their defaults.
// sign: the character to write in place of "=".
std::string named_settings(const CaseSpec& spec, char sign);

// Returns the settings that the cases of a table section share, e.g. "mnist-mlp · CPU · weak scaling, 64 samples per
// device · f32 · torch runtime · 1 thread per replica".
std::string setting_text(const CaseSpec& spec, bool with_batch = true);

// The settings that are ignored when the settings of two cases are compared.
struct MayDiffer {
  // True: the cases may differ in strategy, parameters, backend and scaling, as a case and its baseline do.
  bool strategy = false;
  bool world = false;
  bool batch = false;  // true: the cases may differ in CaseSpec::batch
};
// True if the two cases have the same settings. Not compared: the settings in `may_differ` (with `may_differ.world`
// also the mesh), the seed, processes and oversubscribe.
bool same_setting(const CaseSpec& one, const CaseSpec& other, MayDiffer may_differ);

// Describes the reference cases, against which speed-ups are measured.
struct Reference {
  // Strategy of the reference, which has default parameters and the case's world; empty: the baseline.
  std::string strategy = {};
  std::optional<int64_t> batch = {};  // batch of the reference; nullopt: the same as the case's
};
// True if the speed-up of `spec` is measured against `candidate`.
bool is_reference_of(const CaseSpec& candidate, const CaseSpec& spec, const Reference& reference);

struct Sampling {
  int64_t warmup = 20;
  int samples = 10;
  int64_t steps = 0;
  double min_sample_s = 0.1, max_time_s = 60;
  bool measure_peak = false, audit = true;
  std::string trace_dir = {};
};

template <>
struct Table<Sampling> {
  using S = Sampling;
  static constexpr const char* name = "sampling";
  static constexpr std::tuple fields{
      Field{"warmup", "steps", &S::warmup,
            "warm-up steps before the first block; four more for each batch size if steps are recorded"},
      Field{"samples", "blocks", &S::samples, "maximum number of blocks per launch"},
      Field{"steps", "steps", &S::steps, "steps per block; 0: enough to last min_sample_s, decided by rank 0"},
      Field{"min_sample_s", "s", &S::min_sample_s, "minimum duration of a block"},
      Field{"max_time_s", "s", &S::max_time_s, "time limit for all blocks of a case, over all launches"},
      later(Field{"measure_peak", "-", &S::measure_peak, "also measure the machine's peak compute and memory rates"}),
      later(Field{"audit", "-", &S::audit,
                  "compare steps of the timed run with the oracle, at random moments; since 1.6"}),
      later(Field{"trace_dir", "-", &S::trace_dir, "directory for the ranks' traces; empty: no traces"})};
};

// Measurements that one rank made of a case in one launch (start of the case's processes).
struct RankRecord {
  int rank = 0, threads = 1;
  int64_t steps_per_sample = 0;
  double rows_per_step = 0;
  int64_t tokens_per_sample = 0;
  double flop_per_sample = 0;
  int64_t model_parameters = 0, model_bytes = 0;
  std::vector<int64_t> samples_ns{}, cpu_ns{}, switches{}, queue_ns{};
  int64_t step_p50_ns = 0, step_p90_ns = 0, step_p99_ns = 0;
  std::map<std::string, double> phases_ns{};
  int64_t peak_rss_bytes = 0, own_rss_bytes = 0, peak_device_bytes = 0, peak_device_reserved_bytes = 0;
  int64_t step_tensor_bytes = 0;
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
      Field{"rank", "rank", &R::rank, "rank of the process", range::not_negative},
      later(Field{"threads", "threads", &R::threads, "threads per replica", range::positive}),
      Field{"steps_per_sample", "steps", &R::steps_per_sample, "steps per block", range::not_negative},
      later(Field{"rows_per_step", "samples", &R::rows_per_step,
                  "training samples per step, over all ranks, mean over a block; 0: unknown", range::not_negative}),
      later(Field{"tokens_per_sample", "tokens", &R::tokens_per_sample,
                  "tokens of a sample; 0: the workload has none; since 1.6", range::not_negative}),
      later(Field{"flop_per_sample", "operations", &R::flop_per_sample,
                  "floating-point operations of a step on a sample by the model's closed formula; 0: none; since 1.6",
                  range::not_negative}),
      later(Field{"model_parameters", "parameters", &R::model_parameters,
                  "number of parameters of the whole model, wherever they are stored; 0: unknown; since 1.10",
                  range::not_negative}),
      later(Field{"model_bytes", "bytes", &R::model_bytes,
                  "size of the parameters of the whole model; 0: unknown; since 1.10", range::not_negative}),
      per_block(Field{"samples_ns", "ns", &R::samples_ns, "duration of each block; a block has steps_per_sample steps",
                      range::positive}),
      per_block(unless_empty(
          Field{"cpu_ns", "ns", &R::cpu_ns, "CPU time of the process in each block; since 1.5", range::not_negative})),
      per_block(unless_empty(Field{"switches", "switches", &R::switches,
                                   "involuntary context switches of the process in each block; since 1.5",
                                   range::not_negative})),
      per_block(unless_empty(
          Field{"queue_ns", "ns", &R::queue_ns,
                "longest time in each block for which a thread was ready to run but had no core; absent if the "
                "kernel does not tell; since 1.5",
                range::not_negative})),
      later(Field{"step_p50_ns", "ns", &R::step_p50_ns, "median of single step times, by the host clock",
                  range::not_negative}),
      later(Field{"step_p90_ns", "ns", &R::step_p90_ns, "90th percentile of single step times, by the host clock",
                  range::not_negative}),
      later(Field{"step_p99_ns", "ns", &R::step_p99_ns, "99th percentile of single step times, by the host clock",
                  range::not_negative}),
      Field{"phases_ns", "ns", &R::phases_ns, "time of each phase, mean over the profiled steps"},
      later(Field{"peak_rss_bytes", "bytes", &R::peak_rss_bytes, "peak resident memory of the process",
                  range::not_negative}),
      later(Field{"own_rss_bytes", "bytes", &R::own_rss_bytes,
                  "the part of peak_rss_bytes due to this case, without file pages; since 1.4; 0: unknown",
                  range::not_negative}),
      later(Field{"peak_device_bytes", "bytes", &R::peak_device_bytes, "peak memory allocated on a GPU; 0 on the CPU",
                  range::not_negative}),
      later(Field{"peak_device_reserved_bytes", "bytes", &R::peak_device_reserved_bytes,
                  "peak memory reserved by the GPU allocator; 0 on the CPU", range::not_negative}),
      later(Field{"step_tensor_bytes", "bytes", &R::step_tensor_bytes,
                  "peak memory of this case's CPU tensors of 8 KiB or more during timed steps, without memory that "
                  "ranks share, such as "
                  "ddp's buckets over shm; since 1.8; 0: none or unknown",
                  range::not_negative}),
      later(Field{"first_loss", "loss", &R::first_loss, "loss of the first step; null: not finite"}),
      later(Field{"last_loss", "loss", &R::last_loss, "loss of the last step; null: not finite"}),
      later(Field{"parameters_hash", "-", &R::parameters_hash,
                  "hash of the parameters after timing; must be equal on all ranks"}),
      later(Field{"profile", "-", &R::profile, "profile of extra, untimed steps; since 1.2"}),
      later(Field{"peak", "-", &R::peak, "peak rates of the machine, measured in the first launch; since 1.2"}),
      later(Field{"gpus", "-", &R::gpus, "GPUs that this rank used; since 1.3"}),
      later(Field{"warnings", "-", &R::warnings, "warnings of this rank"})};
};

using BlockSeries = std::vector<int64_t> RankRecord::*;
// Returns the members of RankRecord that are lists with one number per timed block.
std::vector<BlockSeries> block_series();

// Load on the cores during a launch (start of the case's processes), without the load of dpbench itself.
struct OtherLoad {
  double programs = 0;  // cores used by programs other than dpbench
  double host = 0;      // cores that the host of a virtual machine withheld
};

template <>
struct Table<OtherLoad> {
  using L = OtherLoad;
  static constexpr const char* name = "other_load";
  static constexpr std::tuple fields{
      Field{"programs", "cores", &L::programs, "mean number of cores that other programs used"},
      Field{"host", "cores", &L::host, "mean number of cores that the host withheld from this virtual machine",
            range::not_negative}};
};

struct LaunchRecord {
  int index = 0;
  std::vector<RankRecord> ranks{};
  std::vector<double> reference_ns{};
  int disturbed_blocks = 0;
  std::optional<OtherLoad> others{};
  std::optional<int> order{};
};

template <>
struct Table<LaunchRecord> {
  using L = LaunchRecord;
  static constexpr const char* name = "launch";
  static constexpr std::tuple fields{
      Field{"index", "number", &L::index, "position among the case's launches, from 0", range::not_negative},
      Field{"ranks", "-", &L::ranks, "record of each rank"},
      unless_empty(Field{"reference_ns", "ns", &L::reference_ns,
                         "step time of the reference in the block that ran beside each block; since 1.5",
                         range::above_zero}),
      later(Field{"disturbed_blocks", "blocks", &L::disturbed_blocks,
                  "blocks that do not count because the replicas did not have their cores; since 1.5",
                  range::not_negative}),
      later(Field{"others", "-", &L::others, "load by others during the launch; since 1.5"}),
      later(Field{"order", "number", &L::order,
                  "position among the launches of all cases, in the order of measurement, from 0; null: unknown; since "
                  "1.10",
                  range::not_negative})};
};

enum class CheckStatus { passed, failed, skipped };
template <>
inline constexpr auto enum_names<CheckStatus> = std::to_array<std::string_view>({"passed", "failed", "skipped"});

// The most that a strategy refused to run in the checks of a case. none: it ran all of them. feature: it refused at
// least one scenario with a feature that the timed case does not use: micro-batches, clipping, load() or ranks without
// samples; or one in bfloat16. scenario: it refused at least one other scenario. model: it refused the case's kind of
// model.
enum class Refusal { none, feature, scenario, model };
template <>
inline constexpr auto enum_names<Refusal> = std::to_array<std::string_view>({"none", "feature", "scenario", "model"});

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
      Field{"name", "-", &C::name, "name of the check: gradient-vs-baseline, output-shape, ...", range::not_empty},
      Field{"status", "-", &C::status, "result of the check; passed: error <= bound"},
      later(Field{"compared", "-", &C::compared, "the two quantities compared, in a few words"}),
      later(Field{"error", "of the check", &C::error,
                  "difference between the two quantities; null: not applicable or not finite"}),
      later(Field{"bound", "of the check", &C::bound, "largest allowed error"}),
      later(Field{"detail", "-", &C::detail,
                  "failed: parameter, index, rank, step, expected and actual value; skipped: the reason"}),
      later(
          Field{"likely", "-", &C::likely, "failed: likely cause, if known; skipped: the strategy's mistake, if any"})};
};

}  // namespace dpbench
