// How one training step is carried out. Constructing is set-up, step() is what is timed, destroying is tear-down.
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
  std::vector<at::Device> devices;               // a replica each for one process, else this rank's own
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // only for Parallelism::ranks
  uint64_t init_seed = 0;                        // of this rank: a strategy must not trust that all ranks have the same
  uint64_t step_seed = 0;                        // the same on every rank: what dropout is keyed by
  at::ScalarType dtype = at::kFloat;             // kFloat, kDouble; kBFloat16 = autocast over float32 parameters
  Params params;
  int64_t accumulate = 1;           // micro-batches of a step
  std::optional<double> clip_norm;  // global norm limit on the reduced gradient
};

// Both stay on the device: no host synchronisation. The loss is that of the rows this rank (or the one process) had.
// The output is of Setup::dtype, under autocast of float32. A strategy may write the next step's over them.
struct StepResult {
  at::Tensor output, loss;
};
// Joins what one more micro-batch gave: outputs one below the other, losses (already divided by their number) summed.
void add_micro(StepResult& result, at::Tensor output, at::Tensor loss);

// All that later steps depend on, whole and by name.
struct Snapshot {
  NamedTensors parameters = {}, buffers = {}, state = {};
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  // micro: this rank's rows (the whole global batch for one process), cut into micro-batches. Empty: no rows are left
  // here. On the host, or already on the device of a strategy that has one.
  virtual StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) = 0;
  // Evaluation: no gradient, this rank alone, no collective.
  virtual at::Tensor forward(const Batch& mine) = 0;
  // Collective: called once after the last step of every rank.
  virtual void finish() {}

  // Whole tensors by name, gathered on demand: collective, never inside step. Gradients are those the last step
  // applied, undefined for a parameter that had none. State is the optimizer's: "<parameter>.<slot>".
  virtual NamedTensors parameters() = 0;
  virtual NamedTensors gradients() = 0;
  virtual NamedTensors buffers() = 0;
  virtual NamedTensors state() = 0;

  // Collective: goes on from a snapshot of the same workload, which every rank gives. Throws UsageError, naming it, for
  // a tensor that one side lacks or that has another shape or dtype. As it stands it copies into the tensors that the
  // accessors give; a strategy whose accessors gather copies must override it, or cannot resume.
  virtual void load(const Snapshot& snapshot);

  // What the strategy itself knows of the last step in which phases were on, for the report: names with their units.
  virtual std::map<std::string, std::vector<double>> figures() { return {}; }

 protected:
  // Copies `stored` into the tensors that `mine` names, as load() does; `kind` is for the error.
  static void load_into(const NamedTensors& mine, const NamedTensors& stored, const std::string& kind);
};

// Copies, on the CPU. Collective.
Snapshot snapshot_of(Strategy& strategy);

// The meaning of a step's gradient that the strategy promises and is judged by.
// mean_of_active: mean_of_means over the ranks that still have rows. local: each rank's own, nothing is reduced.
enum class Gradient { gathered, mean_of_means, global_mean, sum, mean_of_active, local };
// Whose running statistics the strategy keeps. unchanged: nobody's, as several replicas are clones; one alone is the
// model and keeps its own.
enum class Buffers { first_replica, rank0, local, synchronised, unchanged };

// Values of a strategy's parameters that the tests take it through besides its defaults.
struct Variant {
  std::string name;
  ParamValues params;
};

// Values of a strategy's own parameters by which the tests reach what its defaults do not do. Empty: no parameter does.
struct Settings {
  ParamValues small_buckets = {};   // several buckets on a model of a few hundred bytes
  ParamValues allow_unused = {};    // makes allows_unused true
  ParamValues allow_no_rows = {};   // makes allows_no_rows true
  ParamValues short_interval = {};  // makes average_every small enough to show within four steps
  ParamValues unrecorded = {};      // makes recorded false
};

struct StrategyInfo {
  std::string name, summary;
  Parallelism parallelism = Parallelism::ranks;
  Gradient gradient = Gradient::mean_of_means;
  Buffers buffers = Buffers::rank0;
  bool cpu = true, cuda = true;  // where it can run
  // A batch may come with its ids alone: the strategy gets the rows itself, each device its own at the same time.
  bool loads_rows = false;
  std::vector<ParamInfo> params = {};
  Settings settings = {};
  std::function<std::unique_ptr<Strategy>(const Setup&)> make = {};
  std::optional<at::ScalarType> reduced_in =
      {};                         // what gradients travel in, where that is narrower than their own type
  bool repeatable = true;         // two runs of the same steps give the same bits
  bool skips_non_finite = false;  // a step whose gradient is not finite changes no parameter and no state, on any rank
  bool allows_unused = false;     // ranks may use different parameters
  bool allows_no_rows = false;    // a rank may run out of rows while others have some
  // Every step must use the same parameters in the same order; without a recording, not necessarily all of them.
  bool same_graph = false;
  // Steps or their passes are recorded, at the latest in the fourth of a shape, and replayed from then on: collectives
  // are called while one is, in no replay.
  bool recorded = false;
  bool onednn = false;  // linear layers' large float32 products are oneDNN's on a CPU: those it is judged by are, too
  std::vector<std::string> own = {};  // parameters that each rank keeps for itself: neither sent nor reduced
  int64_t average_every = 0;          // local gradients: parameters are averaged after so many steps
  // What the values of its parameters change in the promises above. Throws UsageError for values that do not go
  // together.
  std::function<void(StrategyInfo&, const Params&)> promise = {};
  std::vector<Variant> variants = {};
};

// The strategy as it is with these values of its parameters. Throws UsageError where its promises contradict each
// other.
StrategyInfo promised(StrategyInfo info, const Params& params);

Registry<StrategyInfo>& strategy_registry();

// Throws UsageError, naming the strategy, for one that cannot be made or judged.
struct RegisterStrategy {
  explicit RegisterStrategy(StrategyInfo info);
};

template <class S>
std::unique_ptr<Strategy> make(const Setup& setup) {
  return std::make_unique<S>(setup);
}

}  // namespace dpbench
