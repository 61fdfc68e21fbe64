#include "harness/conform/scenario/unused.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include <ATen/ATen.h>

#include "strategies/api/trained_parameters.h"

namespace dpbench {
namespace {

// Runs one model on different samples, to see which parameters they use.
class Trials {
 public:
  explicit Trials(const Bench& bench)
      : bench_(bench), model_(first_model(bench)), parameters_(trained_parameters(*model_)) {}

  // Returns the names of the parameters without a gradient after forward and backward passes over these samples. A tied
  // parameter counts under its first name only.
  std::vector<std::string> unused(const std::vector<at::Tensor>& passes, int64_t step) {
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
    for (const auto& ids : passes) {
      const Batch batch = bench_.workload.batch(ids);
      const auto output = model_->forward(batch.input, Context{bench_.step_seed(), step, batch.ids});
      bench_.workload.loss(output, batch.target).backward();
    }
    std::vector<std::string> names;
    for (const auto& [name, parameter] : parameters_)
      if (!parameter.grad().defined()) names.push_back(name);
    return names;
  }

  // Returns the names of the parameters that the rank does not use in any micro-batch of the step.
  std::vector<std::string> unused(const Scenario& scenario, int rank, int64_t step) {
    return unused(ids_of(scenario, bench_.distribution, bench_.seed, step, rank), step);
  }

 private:
  const Bench& bench_;
  std::shared_ptr<Model> model_;
  NamedTensors parameters_;
};

// Returns the scenarios without those that choose the same samples as an earlier one: with the same samples, a model
// uses the same parameters.
std::vector<Scenario> with_distinct_samples(const Distribution& distribution, uint64_t seed) {
  std::vector<Scenario> chosen;
  std::set<std::tuple<Split, int64_t, bool, bool, bool>> seen;
  for (auto& scenario : scenarios(distribution, at::kFloat, true, seed)) {
    if (distribution.refuses_one && gives_one_sample(scenario, distribution, seed)) continue;
    if (seen.emplace(scenario.split, scenario.accumulate, scenario.varies_micros, scenario.same_samples,
                     scenario.unwatched)
            .second)
      chosen.push_back(std::move(scenario));
  }
  return chosen;
}

}  // namespace

// If the model throws, its parameters count as used, because the strategy's own run will then throw too and report the
// step.
bool first_steps_use_all(const Bench& bench) try {
  Trials trials(bench);
  // The first sample of a batch may decide which parameters a model uses. The first samples of different even batches
  // often have nearby ids and may be similar, so the model is run on uneven batches too.
  for (const Split split : {Split::even, Split::uneven})
    for (const int64_t step : {0, 1})
      for (int rank = 0; rank < bench.distribution.owners(); ++rank)
        if (!trials.unused({.name = "look", .gradient_check = "", .split = split}, rank, step).empty()) return false;
  return true;
} catch (const std::exception&) {
  return true;
}

UnusedPattern unused_pattern(const Bench& bench) {
  UnusedPattern pattern;
  Trials trials(bench);
  for (const auto& scenario : with_distinct_samples(bench.distribution, bench.seed)) {
    for (int64_t step = 0; step < 4; ++step) {
      std::map<std::string, int> counts;
      int ranks = 0;  // number of ranks that have samples in this step
      for (int rank = 0; rank < bench.distribution.owners(); ++rank) {
        if (ids_of(scenario, bench.distribution, bench.seed, step, rank).empty()) continue;
        ++ranks;
        for (const auto& name : trials.unused(scenario, rank, step)) ++counts[name];
      }
      for (const auto& [name, count] : counts) {
        if (std::find(pattern.names.begin(), pattern.names.end(), name) == pattern.names.end())
          pattern.names.push_back(name);
        pattern.some_ranks = pattern.some_ranks || count < ranks;
      }
    }
  }
  return pattern;
}

bool graph_changes(const Bench& bench) {
  const bool ranks = bench.strategy.parallelism == Parallelism::ranks;
  std::optional<std::vector<std::string>> before;
  Trials trials(bench);
  for (const auto& scenario : with_distinct_samples(bench.distribution, bench.seed))
    for (int64_t step = 0; step < 4; ++step)
      for (int owner = 0; owner < bench.distribution.owners(); ++owner)
        for (const auto& ids : ids_of(scenario, bench.distribution, bench.seed, step, owner))
          for (const auto& piece :
               ids.split_with_sizes(chunk_sizes(ids.size(0), ranks ? 1 : bench.distribution.world))) {
            const auto names = trials.unused({piece}, step);
            if (before && *before != names) return true;
            before = names;
          }
  return false;
}

}  // namespace dpbench
