// The interface of a strategy. The constructor is set-up, step() is timed, the destructor is tear-down.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/api/named_tensors.h"
#include "strategies/api/params.h"
#include "strategies/api/phases.h"
#include "workloads/api/plugin_abi.h"
#include "workloads/api/workload.h"

namespace dpbench {

struct Setup {
  const Workload& workload;
  std::vector<at::Device> devices;               // one per replica of a single-process strategy, else this rank's device
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // only for Parallelism::ranks
  uint64_t init_seed = 0;                        // of this rank; may differ between ranks
  uint64_t step_seed = 0;                        // the same on every rank; the key of dropout
  at::ScalarType dtype = at::kFloat;             // kFloat, kDouble; kBFloat16 = autocast over float32 parameters
  Params params;
  int64_t accumulate = 1;           // micro-batches per step
  std::optional<double> clip_norm;  // global norm limit on the reduced gradient
};

// Device tensors, without host synchronisation. The loss is of the samples of this rank (or of the single process).
// The output has Setup::dtype, or float32 under autocast. A strategy may overwrite both in the next step.
struct StepResult {
  at::Tensor output, loss;
};
// Adds the result of one micro-batch: concatenates outputs and sums losses, which are already divided by the number of
// micro-batches.
void add_micro(StepResult& result, at::Tensor output, at::Tensor loss);

// The complete training state, as whole tensors by name.
struct Snapshot {
  NamedTensors parameters = {}, buffers = {}, state = {};
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // micro: this rank's samples (the global batch for a single process), split into micro-batches. Empty: this rank has
  // run out of samples. On the host, or already on the device of a single-device strategy.
  virtual StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) = 0;
  // Evaluation on this rank alone: no gradient, no collective.
  virtual at::Tensor forward(const Batch& mine) = 0;
  // Collective. Called once after the last step of every rank.
  virtual void finish() {}

  // Whole tensors by name, gathered on demand. Collective, never called during step(). gradients() returns the gradients
  // that the last step applied, undefined for a parameter without one. state() is the optimizer's, named
  // "<parameter>.<slot>".
  virtual NamedTensors parameters() = 0;
  virtual NamedTensors gradients() = 0;
  virtual NamedTensors buffers() = 0;
  virtual NamedTensors state() = 0;

  // Collective. Restores a snapshot of the same workload, passed by every rank. Throws UsageError with the name of a
  // tensor that is missing on one side or differs in shape or dtype. The default copies into the tensors that the
  // accessors return. Override it if the accessors return copies, or the strategy cannot resume.
  virtual void load(const Snapshot& snapshot);

  // The strategy's own metrics of the last step with phases on, for the report. Names end in the unit.
  virtual std::map<std::string, std::vector<double>> figures() { return {}; }

 protected:
  // Copies `stored` into the tensors of the same names in `mine`. `kind` is used in error messages.
  static void load_into(const NamedTensors& mine, const NamedTensors& stored, const std::string& kind);
};

// Collective. Returns copies on the CPU.
Snapshot snapshot_of(Strategy& strategy);

// The definition of a step's gradient that a strategy declares and the checks verify.
// mean_of_active: mean_of_means over the ranks that still have samples. local: each rank's own, without reduction.
enum class Gradient { gathered, mean_of_means, global_mean, sum, mean_of_active, local };
// The replica or rank that provides the running statistics. unchanged: several replicas are clones and their statistics
// are discarded; a single replica is the model itself and keeps them.
enum class Buffers { first_replica, rank0, local, synchronised, unchanged };

// A parameter set that the tests run in addition to the defaults.
struct Variant {
  std::string name;
  ParamValues params;
};

// Parameter values that the tests use to reach non-default behaviour. Empty: no parameter has that effect.
struct Settings {
  ParamValues small_buckets = {};   // several buckets on a model of a few hundred bytes
  ParamValues allow_unused = {};    // makes allows_unused true
  ParamValues allow_no_rows = {};   // makes allows_no_rows true
  ParamValues short_interval = {};  // makes average_every small enough for four steps
  ParamValues unrecorded = {};      // makes recorded false
};

struct StrategyInfo {
  std::string name, summary;
  Parallelism parallelism = Parallelism::ranks;
  Gradient gradient = Gradient::mean_of_means;
  Buffers buffers = Buffers::rank0;
  bool cpu = true, cuda = true;  // supported devices
  // Accepts batches with ids only: the strategy loads the samples itself, for all devices in parallel.
  bool loads_rows = false;
  std::vector<ParamInfo> params = {};
  Settings settings = {};
  std::function<std::unique_ptr<Strategy>(const Setup&)> make = {};
  std::optional<at::ScalarType> reduced_in =
      {};                         // dtype of gradients on the wire, if narrower than their own
  bool repeatable = true;         // two runs of the same steps give identical bits
  bool skips_non_finite = false;  // a step with a non-finite gradient changes no parameter or state on any rank
  bool allows_unused = false;     // ranks may use different parameters in a step
  bool allows_no_rows = false;    // a rank may run out of samples before the others
  // Every step must use the same parameters in the same order; unless recorded, it may leave some unused.
  bool same_graph = false;
  // Steps or passes are recorded by the fourth step of a shape at the latest, then replayed. Collectives are called
  // while recording, not while replaying.
  bool recorded = false;
  bool onednn = false;  // large float32 products of linear layers use oneDNN on the CPU, in the reference too
  std::vector<std::string> own = {};  // parameters local to each rank: neither broadcast nor reduced
  int64_t average_every = 0;          // Gradient::local: steps between two averages of the parameters
  // Adjusts the fields above to the parameter values. Throws UsageError for values that cannot be combined.
  std::function<void(StrategyInfo&, const Params&)> promise = {};
  std::vector<Variant> variants = {};
};

// Returns the strategy's info adjusted to these parameter values. Throws UsageError if its fields contradict each other.
StrategyInfo promised(StrategyInfo info, const Params& params);

Registry<StrategyInfo>& strategy_registry();

// Throws UsageError with the strategy's name if its info is incomplete or contradictory.
struct RegisterStrategy {
  explicit RegisterStrategy(StrategyInfo info);
};

template <class S>
std::unique_ptr<Strategy> make(const Setup& setup) {
  return std::make_unique<S>(setup);
}

}  // namespace dpbench
