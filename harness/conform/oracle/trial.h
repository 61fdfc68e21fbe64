// A trial: the input of the judges for one scenario. It holds every rank's recorded evidence and the expected result of
// each step, computed by the oracle.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/conform/oracle/oracle.h"
#include "harness/conform/scenario/drive.h"

namespace dpbench {

struct ExpectedStep {
  std::vector<Shard> shards;  // forward passes, computed with the strategy's own parameters before the step
  std::vector<double> shares;
  // Expected gradient, combined as the strategy declares, in float64, before clipping.
  std::vector<at::Tensor> gradient;
  std::vector<std::vector<at::Tensor>> own;  // expected gradient of each rank; empty if all parameters are reduced
  std::vector<bool> unreduced;               // true for each parameter that is local to its rank, hence not reduced
  double unreduced_share = 1;  // the shards' weights are multiplied by this factor for parameters that are not reduced
  std::vector<at::Tensor> whole;  // gradient of the whole batch on one device in float64; empty if not requested
  // Gradient of the whole batch on one device in the scenario's dtype; only if the scenario uses softplus instead of
  // ReLU.
  std::vector<at::Tensor> single;
  // gradient of the whole batch on the strategy's GPU in the scenario's dtype, with softplus; empty without a GPU
  std::vector<at::Tensor> single_on_device;
  std::vector<bool> used;             // true for each parameter that got a gradient on some replica
  std::vector<NamedTensors> buffers;  // expected buffers of each replica after the step

  const std::vector<at::Tensor>& gradient_of(int rank) const {
    return own.empty() ? gradient : own[static_cast<size_t>(rank)];
  }
};

// Returns, for each parameter in `names`, all names that the model has for it; a tied parameter has several.
std::vector<std::vector<std::string>> aliases_of(const Model& model, const std::vector<std::string>& names);

struct Trial {
  const Bench& bench;
  const Scenario& scenario;
  std::optional<double> clip_norm;
  std::vector<Evidence> ranks;
  std::vector<std::string> names;  // names of the trainable parameters; a tensor with several names is listed once
  std::vector<std::vector<std::string>> aliases;  // all names of each parameter; a tied parameter has several
  // Expected results indexed by step; empty for steps before scenario.judged_from, the first step that is judged.
  std::vector<ExpectedStep> expected;

  const Workload& workload() const { return bench.workload; }
  int world() const { return bench.distribution.world; }  // number of replicas
  // True if several ranks compute one replica together.
  bool shares_replicas() const { return ranks.size() > static_cast<size_t>(world()); }
  // True if a forward pass depends on the samples of all ranks through synchronised BatchNorm. A model without buffers
  // has no BatchNorm.
  bool couples_samples() const { return bench.strategy.buffers == Buffers::synchronised && !ranks[0].buffers.empty(); }
  int replica_of(int rank) const { return bench.distribution.replica_of(rank); }
  // Return where a value was found, e.g. ", rank 1, step 3, scenario even". index: the step's place in the scenario,
  // whose first step may have another number than 0.
  std::string place(int64_t rank, int64_t index) const;
  std::string place(int64_t index) const;
  const NamedTensors& parameters_before(int64_t step, int rank = 0) const;
  const NamedTensors& buffers_before(int64_t step, int rank = 0) const;
  // Returns the compared elements of a rank's parameter before the first step; an undefined tensor if the rank has no
  // such parameter.
  at::Tensor start(size_t rank, const std::string& name) const;
  // Returns the gradient that a rank reported for a parameter; an undefined tensor if it reported none.
  at::Tensor reported(int64_t step, size_t parameter, int rank = 0) const;
};

// Computes the expected results of all steps: in float64 for scenarios in float64 or with softplus instead of ReLU,
// otherwise in the scenario's dtype.
Trial make_trial(const Bench& bench, const Scenario& scenario, std::optional<double> clip_norm,
                 std::vector<Evidence> ranks);

// Returns the expected output of a rank, its micro-batches joined (joined_samples()). For a single process it covers
// all replicas.
at::Tensor expected_output(const Trial& trial, const ExpectedStep& step, int rank);
// Returns the loss that a rank (or the single process) must report for a step: the mean over its micro-batches. An
// undefined tensor if it has no samples.
at::Tensor expected_loss(const Trial& trial, const ExpectedStep& step, int rank);

// Returns the buffer semantics to check: those that the strategy promises, unless it has a single replica. A single
// replica is not cloned, so its running statistics change even if the strategy promises unchanged buffers.
Buffers meant_buffers(const Trial& trial);
// Returns the buffers that a rank must have after a step.
const NamedTensors& expected_buffers(const Trial& trial, const ExpectedStep& expected, int rank);

// The expected steps of a trial computed in another dtype: float64, or float32 for scenarios in float64. They show the
// rounding error of a pass.
struct OtherPass {
  std::vector<ExpectedStep> expected;
  // For each parameter, the largest rounding error of an element in any step. It also covers gradients that are zero up
  // to rounding, such as that of a bias before BatchNorm. For scenarios in float64, it is the scaled-down error of a
  // float32 pass.
  std::vector<double> rounding;
};
OtherPass other_pass(const Trial& trial);

// Returns the expected first step, computed before the strategy runs. It is used to choose the clipping norm and the
// loss scale, and to time the oracle.
ExpectedStep first_step(const Bench& bench, const Scenario& scenario);

}  // namespace dpbench
