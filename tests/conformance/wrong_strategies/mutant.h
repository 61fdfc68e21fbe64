// A mutant is a wrong strategy with the name of the check that must catch it and a key term of that check's message.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/conformance/wrong_strategies/reference.h"
#include "tests/ranks/threads.h"

namespace dpbench::wrong {

struct Mutant {
  std::string name;
  std::string killed_by;
  std::string key_term = {};  // what the failed check's message must contain; '|' separates several texts
  std::function<StrategyInfo()> strategy;
  std::string workload = "probe-mlp-sgd";
  int world = 3;  // number of ranks; ignored if there is a mesh
  Wrap wrap = {};
  at::ScalarType dtype = at::kFloat;  // dtype of the training step
  uint64_t seed = 1;
  std::string mesh = {};   // mesh of the ranks, e.g. "dp=2,tp=2"
  std::string model = {};  // configuration of the workload's model; empty: the small one for checks
};

// Returns a factory of the reference strategy (reference.h) in which `change` has replaced some parts.
inline std::function<StrategyInfo()> with(const std::function<void(Parts&)>& change,
                                          Gradient gradient = Gradient::mean_of_means) {
  return [=] {
    Parts parts = right_parts();
    change(parts);
    return strategy_of(std::move(parts), gradient);
  };
}

// Returns the number of tokens in the batch's loss. The loss leaves out tokens with padding as their target.
inline double tokens_in(const Batch& batch) { return batch.target.ge(0).sum().item<double>(); }

// Returns the batch with the input that rank 0 of the axis has. Collective.
inline Batch with_input_of_rank_0(const Batch& batch, const Axis& axis) {
  std::vector<at::Tensor> input = {batch.input.clone()};
  axis.group->broadcast(input)->wait();
  return {input[0], batch.target, batch.ids};
}

// GoogleTest calls this function to print a mutant.
inline void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

// Returns a strategy on these mesh axes. Its evaluation calls collectives, so all ranks must evaluate at the same time.
inline StrategyInfo on_axes(const std::string& name, const std::vector<std::string>& axes,
                            const std::function<std::unique_ptr<Strategy>(const Setup&)>& make,
                            const std::vector<ParamInfo>& params = {}) {
  return {.name = name,
          .summary = "",
          .gradient = Gradient::mean_of_means,
          .buffers = Buffers::rank0,
          .axes = axes,
          .params = params,
          .make = make,
          .collective_evaluation = true};
}

// Returns a mutant to be checked on a mesh. `model` configures the workload's model; empty: the small one for checks.
inline Mutant on_mesh(const std::string& name, const std::string& killed_by, const std::string& key_term,
                      const std::function<StrategyInfo()>& strategy, const std::string& workload,
                      const std::string& mesh, const std::string& model) {
  return {.name = name,
          .killed_by = killed_by,
          .key_term = key_term,
          .strategy = strategy,
          .workload = workload,
          .mesh = mesh,
          .model = model};
}

std::vector<Mutant> reduction_mutants();
std::vector<Mutant> step_mutants();
std::vector<Mutant> state_mutants();
std::vector<Mutant> optimizer_mutants();
std::vector<Mutant> replica_mutants();
std::vector<Mutant> backend_mutants();
std::vector<Mutant> feature_mutants();
std::vector<Mutant> late_mutants();
std::vector<Mutant> view_mutants();
std::vector<Mutant> unseen_mutants();
std::vector<Mutant> weight_mutants();
std::vector<Mutant> clip_mutants();
std::vector<Mutant> transformer_mutants();
std::vector<Mutant> mesh_mutants();
std::vector<Mutant> traffic_mutants();
std::vector<Mutant> sharded_mutants();
std::vector<Mutant> sharded_gradient_mutants();
std::vector<Mutant> reshard_mutants();
std::vector<Mutant> pipeline_mutants();
std::vector<Mutant> layout_mutants();
std::vector<Mutant> tensor_mutants();
std::vector<Mutant> context_mutants();
std::vector<Mutant> expert_mutants();
// Strategies on layouts drawn at random: each has one mistake, except one strategy, which has none. Their names do not
// depend on the seed.
std::vector<Mutant> composed_mutants(uint64_t seed);
// Wrong strategies that a check catches with some of the seeds 1 to Mutant::seed, and a correct one that passes with
// all. World 0: each seed draws the world, as in `dpbench check`.
std::vector<Mutant> rare_mutants();
std::vector<Mutant> odd_strategies();  // correct strategies of unusual construction, and similar wrong ones
std::vector<Mutant> right_features();  // correct versions of feature_mutants(): must pass every check
std::vector<Mutant> equivalents();     // other correct strategies: must pass every check

}  // namespace dpbench::wrong
