#include "harness/conform/scenario/bench.h"

#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/evidence/evidence.h"
#include "harness/conform/evidence/widened.h"

namespace dpbench {
namespace {

// Returns the batch of these ids, in which the first sample's content is another sample's. Its id stays.
Batch with_another_sample(const Workload& workload, const at::Tensor& ids) {
  at::Tensor drawn = ids.clone();
  drawn.narrow(0, 0, 1).add_(workload.samples() / 2).remainder_(workload.samples());
  Batch batch = workload.batch(drawn);
  batch.ids = ids;
  return batch;
}

}  // namespace

Batch batch_of(const Workload& workload, const Scenario& scenario, const Distribution& distribution,
               const at::Tensor& ids, int owner, int64_t step) {
  const bool is_altered = altered(scenario, distribution) == std::pair(distribution.replica_of(owner), step);
  if (is_altered && scenario.perturbed) return with_another_sample(workload, ids);
  Batch batch = workload.batch(ids);
  if (!is_altered || !scenario.poison) return batch;
  // An infinity is put into the sample's target (label), which gives infinite gradients; in the input it would mostly
  // give NaN.
  const bool of_target = !batch.input.is_floating_point() ||
                         (std::isinf(*scenario.poison) && batch.target.is_floating_point() && !workload.sum_loss());
  at::Tensor& poisoned_tensor = of_target ? batch.target : batch.input;
  poisoned_tensor = poisoned_tensor.clone();
  (of_target ? poisoned_tensor.select(0, 0).flatten()[0] : poisoned_tensor.select(0, 0)).fill_(*scenario.poison);
  return batch;
}

Params params_of(const Bench& bench, const Scenario& scenario) {
  const Settings& settings = bench.strategy.settings;
  // options that the user set keep their values, because the insertions into this map do not overwrite
  ParamValues given = bench.params;
  if (scenario.revealing) given.insert(settings.revealing.begin(), settings.revealing.end());
  if (scenario.split == Split::few) given.insert(settings.allow_no_samples.begin(), settings.allow_no_samples.end());
  return {bench.strategy.params, given, bench.strategy.name};
}

std::shared_ptr<Model> first_model(const Bench& bench) { return bench.workload.model(bench.init_seed(0)); }

NamedTensors initial_parameters(const Bench& bench, int rank, at::ScalarType dtype) {
  const auto model = first_model(bench), mine = bench.workload.model(bench.init_seed(rank));
  const auto own = mine->named_parameters();
  NamedTensors result;
  for (const auto& item : model->named_parameters())
    result.emplace_back(item.key(),
                        widened(is_in(bench.strategy.own, item.key()) ? own[item.key()] : item.value(), dtype));
  return result;
}

NamedTensors initial_buffers(const Bench& bench, int rank, at::ScalarType dtype) {
  const int source = bench.strategy.buffers == Buffers::local ? rank : 0;
  NamedTensors result;
  for (const auto& item : bench.workload.model(bench.init_seed(source))->named_buffers())
    result.emplace_back(item.key(), widened(item.value(), dtype));
  return result;
}

}  // namespace dpbench
