#include "harness/worker/steps/case_setup.h"

#include <stdexcept>

#include "harness/conform/scenario/make_workload.h"
#include "harness/conform/scenario/seeds.h"

namespace dpbench {

at::ScalarType scalar_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return at::kFloat;
    case Dtype::f64:
      return at::kDouble;
    case Dtype::bf16:
      return at::kBFloat16;
  }
  throw std::logic_error("unknown dtype");
}

WorkloadOptions workload_options(const CaseSpec& spec, const std::string& shared_dir) {
  return {.scale = spec.scale,
          .model = spec.model,
          .data_dir = spec.data_dir,
          .recompute = spec.recompute,
          .shared_dir = shared_dir};
}

std::unique_ptr<Workload> workload_of(const CaseSpec& spec, const std::string& shared_dir) {
  return make_workload(workload_registry().at(spec.workload), workload_options(spec, shared_dir));
}

std::vector<std::string> own_parameters(const CaseSpec& spec) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  return promised(info, Params(info.params, spec.params, spec.strategy)).own;
}

const Mesh& mesh_of(const CaseSpec& spec, const StrategyInfo& info, const Group& group) {
  const Params params(info.params, spec.params, spec.strategy);
  return group.mesh(effective_mesh(info, params, spec.mesh, group.world()));
}

Setup setup_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload, const Group& group) {
  return {.workload = workload,
          .devices = group.devices(info.parallelism == Parallelism::ranks ? 1 : spec.world, spec.oversubscribe),
          .mesh = mesh_of(spec, info, group),
          .init_seed = init_seed_of(spec.seed, group.rank()),
          .step_seed = step_seed_of(spec.seed),
          .dtype = scalar_type(spec.dtype),
          .params = Params(info.params, spec.params, spec.strategy),
          .accumulate = spec.accumulate,
          .clip_norm = spec.clip_norm,
          .allows_idle = workload_registry().at(spec.workload).probe};
}

}  // namespace dpbench
