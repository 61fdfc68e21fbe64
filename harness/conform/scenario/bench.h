// The objects that all scenarios of a case share: the strategy, the workload with its samples, and the initial model.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/conform/scenario/scenario.h"
#include "harness/conform/scenario/seeds.h"

namespace dpbench {

// One rank's test setup (strategy, workload, devices), shared by all scenarios of a case.
struct Bench {
  const StrategyInfo& strategy;  // the strategy's properties, adjusted to the values in `params`
  const Workload& workload;
  Distribution distribution;
  int rank = 0;
  Mesh mesh;  // mesh of all ranks; has no process groups unless the strategy runs one process per rank
  std::vector<at::Device> devices;
  ParamValues params;
  uint64_t seed = 1;
  // Called when a scenario begins its set-up, a step or an evaluation, with a text such as "step 1 of scenario even".
  // An empty function is not called.
  std::function<void(const std::string& place)> enters = {};
  // If false, the strategy must refuse a model that is too small to give each rank a part of the computation. If true,
  // as for probes (small test models), ranks may be idle.
  bool allows_idle = true;

  uint64_t init_seed(int of_rank) const { return init_seed_of(seed, of_rank); }
  uint64_t step_seed() const { return step_seed_of(seed); }
};

// Returns the batch of these sample ids for `owner` (a rank, or 0 for one process), including an altered sample: one
// with a NaN or infinity, or another sample.
Batch batch_of(const Workload& workload, const Scenario& scenario, const Distribution& distribution,
               const at::Tensor& ids, int owner, int64_t step);

// Returns the strategy's options (--param) in a scenario.
Params params_of(const Bench& bench, const Scenario& scenario);

// Returns a new copy of rank 0's initial model, from which all ranks must start.
std::shared_ptr<Model> first_model(const Bench& bench);

// Return the tensors with which a rank must start: rank 0's, or its own for parameters and buffers that the strategy
// does not synchronize. Floating-point tensors are cast to float64 if `dtype` is float64.
NamedTensors initial_parameters(const Bench& bench, int rank, at::ScalarType dtype);
NamedTensors initial_buffers(const Bench& bench, int rank, at::ScalarType dtype);

}  // namespace dpbench
