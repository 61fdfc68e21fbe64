// The interface of a parallelism strategy. The constructor prepares the training, step() runs one timed training step,
// and the destructor releases all resources.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/api/mesh.h"
#include "strategies/api/named_tensors.h"
#include "strategies/api/params.h"
#include "strategies/api/phases.h"
#include "strategies/api/state_part.h"
#include "strategies/api/traffic.h"
#include "workloads/api/plugin_abi.h"
#include "workloads/api/workload.h"

namespace dpbench {

struct Setup {
  const Workload& workload;
  // This process's devices. A single-process strategy has one device per replica; each rank of a multi-process strategy
  // has one device.
  std::vector<at::Device> devices;
  // The grid of all ranks, with a process group per axis. Without the flag --mesh, the only axis is dp and has all
  // ranks. The mesh of a single-process strategy has no process groups.
  Mesh mesh = {};
  uint64_t init_seed = 0;  // seed of this rank's initial parameters; may differ between ranks
  uint64_t step_seed = 0;  // seed of the dropout masks; the same on every rank
  // Dtype of the computation: kFloat, kDouble, or kBFloat16 for autocast over float32 parameters.
  at::ScalarType dtype = at::kFloat;
  Params params;
  int64_t accumulate = 1;           // number of micro-batches per step
  std::optional<double> clip_norm;  // limit on the global norm of the reduced gradient; nullopt: no clipping
  // If false, the strategy throws UsageError if the model is too small to give each rank a part of the computation.
  // True when the checks run probes, which are small models.
  bool allows_idle = true;
};

// The result of a step: tensors on the device, returned without host synchronisation. The loss covers the samples of
// this rank (or of the single process). The output has Setup::dtype, or float32 under autocast. A strategy may
// overwrite both tensors in the next step.
struct StepResult {
  at::Tensor output, loss;
  // If no rank has the whole output: a function that gathers it, set in place of `output`. Collective. The harness
  // calls it at most once, before the next step, and never in a timed step.
  std::function<at::Tensor()> gather_output = {};

  at::Tensor whole_output() const { return gather_output ? gather_output() : output; }
};
// Adds a micro-batch's output and loss to a step's result: concatenates outputs and sums losses. `loss` must already be
// divided by the number of micro-batches.
void add_micro(StepResult& result, at::Tensor output, at::Tensor loss);

// The complete training state of a strategy: whole (unsharded) tensors by name.
struct Snapshot {
  NamedTensors parameters = {}, buffers = {}, state = {};
};

// Tensors that a process keeps between steps.
struct KeptTensors {
  NamedTensors parameters = {}, buffers = {}, gradients = {}, state = {};
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Runs one training step. micro: the samples of this rank (or of the single process), split into micro-batches; empty
  // if this rank has run out of samples. The tensors are on the host, or already on the device of a single-device
  // strategy.
  virtual StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) = 0;
  // Evaluates the model: computes no gradient. Returns the output. Calls no collective, so that one rank may evaluate
  // alone, unless StrategyInfo::collective_evaluation is true.
  virtual at::Tensor forward(const Batch& mine) = 0;
  // Ends the training: completes collectives in which other ranks still need this rank (ddp with join=on). Collective:
  // every rank calls finish() once after its last step.
  virtual void finish() {}

  // parameters(), gradients(), buffers() and state() return whole (unsharded) tensors by name. They are collective and
  // never called during step(). gradients() returns the gradients that the last step applied; the tensor of a parameter
  // without a gradient is undefined. state() returns the optimizer's state, in tensors named "<parameter>.<slot>".
  virtual NamedTensors parameters() = 0;
  virtual NamedTensors gradients() = 0;
  virtual NamedTensors buffers() = 0;
  virtual NamedTensors state() = 0;

  // Returns the parts of the snapshot that this rank stores. The parts of all ranks together hold each element once.
  // Collective. The default, nullopt, means that ranks store whole tensors only.
  virtual std::optional<std::vector<StatePart>> stored_parts() { return std::nullopt; }

  // Returns the tensors that this process keeps between steps, from which the report computes memory by part.
  // Collective. The default returns parameters(), buffers(), gradients() and state(). Override it if these functions
  // return gathered copies, or if the process has several replicas. If the strategy sets StrategyInfo::live_parameters,
  // the function is also called during step(); there it must not call a collective, and lists the parts of parameters
  // that a rank keeps for the backward pass.
  virtual KeptTensors kept_tensors();

  // Restores a snapshot of the same workload. Collective: every rank passes the snapshot. Throws UsageError with the
  // name of a tensor that is missing on one side or differs in shape or dtype. The default copies the snapshot into the
  // tensors that parameters(), buffers() and state() return. Override it if these functions return copies, or if the
  // strategy cannot resume.
  virtual void load(const Snapshot& snapshot);

  // Returns the strategy's own metrics for the report, by name, measured in the last step that ran with phase timing. A
  // name ends in the metric's unit.
  virtual std::map<std::string, std::vector<double>> figures() { return {}; }

 protected:
  // Copies `stored` into the tensors of the same names in `mine`. `kind`, such as "parameter", is used in error
  // messages.
  static void load_into(const NamedTensors& mine, const NamedTensors& stored, const std::string& kind);
};

// Returns the strategy's state as copies on the CPU. Collective: every rank must call it.
Snapshot snapshot_of(Strategy& strategy);

// The meaning of a strategy's gradient, as the strategy declares it; the checks verify the declaration. gathered: the
// gradient of one loss over the gathered outputs of all replicas. mean_of_means: the mean of the ranks' own mean-loss
// gradients. global_mean: the gradient of the mean loss over the samples of all ranks. sum: the sum of the ranks' own
// gradients. mean_of_active: as mean_of_means, but over only the ranks that still have samples. local: each rank uses
// its own gradient without reduction.
enum class Gradient { gathered, mean_of_means, global_mean, sum, mean_of_active, local };
template <>
inline constexpr auto enum_names<Gradient> =
    std::to_array<std::string_view>({"gathered", "mean_of_means", "global_mean", "sum", "mean_of_active", "local"});

// The replica or rank that provides the BatchNorm running statistics which the strategy keeps. local: each rank keeps
// its own. synchronised: the statistics cover the samples of all ranks. unchanged: with several replicas, each is a
// temporary clone and its statistics are discarded; a single replica is the model itself and keeps its statistics.
enum class Buffers { first_replica, rank0, local, synchronised, unchanged };
template <>
inline constexpr auto enum_names<Buffers> =
    std::to_array<std::string_view>({"first_replica", "rank0", "local", "synchronised", "unchanged"});

// A set of parameter values that the tests run in addition to the defaults.
struct Variant {
  std::string name;
  ParamValues params;
};

// Values of a strategy's parameters (Params) with which the tests reach behaviour that the defaults do not show. A
// member stays empty if the strategy has no values with the effect that the member's comment describes.
struct Settings {
  // Values with which a small model shows the strategy's mistakes, for example a bucket size that gives several
  // buckets.
  ParamValues revealing = {};
  // Values with which ranks may use different parameters in a step (StrategyInfo::allows_unused).
  ParamValues allow_unused = {};
  // Values with which a rank may run out of samples before the others (StrategyInfo::allows_no_samples).
  ParamValues allow_no_samples = {};
  // Values with which the ranks average their parameters at least once in a test of four steps.
  ParamValues short_interval = {};
  // Values with which the strategy records no CUDA graphs (StrategyInfo::recorded is then false).
  ParamValues unrecorded = {};
};

struct StrategyInfo {
  std::string name, summary;
  Parallelism parallelism = Parallelism::ranks;
  Gradient gradient = Gradient::mean_of_means;
  Buffers buffers = Buffers::rank0;
  bool cpu = true, cuda = true;  // device types that the strategy supports
  bool unproven_on_gpu = false;  // true until all checks have passed on a GPU; shown in the result rows of GPU cases
  bool python = false;           // true if the strategy is written in Python: each rank then runs a Python interpreter
  // Mesh axes that the strategy supports (workloads/base/mesh_shape.h). The strategy is not run on a mesh with other
  // axes. Without the flag --mesh, all ranks are on the first axis.
  std::vector<std::string> axes = {default_axis};
  // True if the strategy accepts batches that hold only sample ids, and loads the samples itself, for all devices in
  // parallel.
  bool loads_samples = false;
  std::vector<ParamInfo> params = {};
  Settings settings = {};
  std::function<std::unique_ptr<Strategy>(const Setup&)> make = {};
  // For a strategy that frees model parameters during a step: returns the maximum, over the moments when the step
  // computes a loss or calls a collective, of the bytes of KeptTensors::parameters (a rank's shards), the model's
  // parameters and the outputs of unfinished all-gathers together. Returns nullopt if the strategy frees no parameters
  // with these values of Params.
  std::function<std::optional<int64_t>(const TrafficQuery&)> live_parameters = {};
  TrafficFormula traffic = {};  // bytes that a rank passes to collectives in a step; empty: the strategy has no formula
  std::optional<at::ScalarType> reduced_in =
      {};  // dtype in which gradients are communicated; nullopt if it is the gradients' own dtype
  std::optional<at::ScalarType> used_in =
      // Under bfloat16 autocast, the dtype in which weight matrices are gathered and used; nullopt if it is their own
      // dtype.
      {};
  bool repeatable = true;         // true if two runs of the same steps give identical bits
  bool skips_non_finite = false;  // true if a step with a non-finite gradient changes no parameter or state on any rank
  bool allows_unused = false;     // true if each rank may use a different subset of the parameters in a step
  bool allows_no_samples = false;  // true if a rank may run out of samples before the others
  // True if Strategy::forward() is collective: all ranks call it equally often, each with its own samples.
  bool collective_evaluation = false;
  // True if gradients are reduced between ranks in every micro-batch of a step, not only in the last.
  bool reduces_each_micro_batch = false;
  // True if every step must use the same parameters in the same order. Parameters that no step uses are allowed, except
  // by strategies with `recorded`, which may refuse them.
  bool same_graph = false;
  // True if the strategy records steps or passes as CUDA graphs and then replays them. For each batch shape, recording
  // ends with the fourth step at the latest. The strategy calls collectives while recording, but not while replaying.
  bool recorded = false;
  // True if large float32 products of linear layers use oneDNN on the CPU. The checks then compute expected results
  // with oneDNN too.
  bool onednn = false;
  // Names of parameters that each rank keeps to itself: neither broadcast nor reduced.
  std::vector<std::string> own = {};
  // With Gradient::local, in which ranks do not reduce gradients: the number of steps after which the ranks average
  // their parameters.
  int64_t average_every = 0;
  // Adjusts the fields of StrategyInfo to the values of the strategy's parameters. Throws UsageError for values that
  // cannot be combined.
  std::function<void(StrategyInfo&, const Params&)> promise = {};
  // Returns the user's mesh `asked`. If these values of Params need process groups of neighbouring ranks within an
  // axis, the function sets AxisSize::part of the axis. Empty: the strategy always runs on the user's mesh.
  std::function<MeshShape(const MeshShape& asked, const Params&)> mesh_for = {};
  // Throws UsageError if the strategy cannot train this model on this mesh with these values of Params. dpbench calls
  // it before it starts ranks, so that the case is refused in a dry run too; the constructor must still check. Empty:
  // only the constructor checks.
  std::function<void(const Model&, const MeshShape&, const Params&)> require_suitable = {};
  std::vector<Variant> variants = {};
};

// Returns the strategy's properties adjusted to these parameter values. Throws UsageError if the values contradict each
// other.
StrategyInfo promised(StrategyInfo info, const Params& params);

// Returns the mesh on which `world` ranks run the strategy with these parameter values. asked: the user's mesh; if
// empty, all ranks are on the axis dp.
MeshShape effective_mesh(const StrategyInfo& info, const Params& params, const std::string& asked, int world);

Registry<StrategyInfo>& strategy_registry();

// An object of this type registers a strategy in its constructor. If the strategy's properties are incomplete or
// contradict each other, dpbench refuses to load the plug-in, with an error that names the strategy and the property.
struct RegisterStrategy {
  explicit RegisterStrategy(StrategyInfo info);
};

template <class S>
std::unique_ptr<Strategy> make(const Setup& setup) {
  return std::make_unique<S>(setup);
}

}  // namespace dpbench
