#include "harness/worker/run_case.h"

#include <map>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "harness/worker/cuda.h"
#include "harness/worker/fingerprint.h"
#include "harness/worker/memory.h"
#include "harness/worker/peak.h"
#include "harness/worker/profile.h"
#include "harness/worker/recording.h"
#include "harness/worker/timing.h"

namespace dpbench {
namespace {

// Where replicas share cores, each would find alone what they only have together. The same answer on every rank.
bool each_replica_has_its_cores(const CaseSpec& spec, const Group& group) {
  if (spec.device != "cpu") return true;
  const auto processes = group.gather(host_and_cores());
  return group.agree(group.rank() != 0 || cores_for_all(processes, spec.world / spec.processes, spec.threads)) != 0;
}

std::vector<int> gpus_of(const Setup& setup) {
  std::vector<int> gpus;
  for (const at::Device& device : setup.devices)
    if (device.is_cuda()) gpus.push_back(device.index());
  return gpus;
}

}  // namespace

at::ScalarType dtype_of(const std::string& name) {
  static const std::map<std::string, at::ScalarType> types = {
      {"f32", at::kFloat}, {"f64", at::kDouble}, {"bf16", at::kBFloat16}};
  const auto found = types.find(name);
  if (found == types.end()) throw UsageError("unknown --dtype '" + name + "' (known: f32, f64, bf16)");
  return found->second;
}

std::unique_ptr<Workload> workload_of(const CaseSpec& spec, const std::string& shared_dir) {
  return workload_registry().at(spec.workload).make(
      {.scale = spec.scale, .data_dir = spec.data_dir, .shared_dir = shared_dir});
}

std::vector<std::string> own_parameters(const CaseSpec& spec) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  return promised(info, Params(info.params, spec.params, spec.strategy)).own;
}

Setup setup_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload, const Group& group) {
  return {.workload = workload,
          .devices = group.devices(info.parallelism == Parallelism::ranks ? 1 : spec.world, spec.oversubscribe),
          .group = group.process_group(),
          .init_seed = spec.seed,
          .step_seed = spec.seed,
          .dtype = dtype_of(spec.dtype),
          .params = Params(info.params, spec.params, spec.strategy),
          .accumulate = spec.accumulate,
          .clip_norm = spec.clip_norm};
}

RankRecord run_case(const CaseSpec& spec, const Sampling& sampling, const Group& group, Pulse& pulse,
                    const std::string& shared_dir) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  const auto workload = workload_of(spec, shared_dir);
  StepSource source(*workload, spec, info, group.rank(), group.devices(1, spec.oversubscribe).at(0));
  forget_peak_memory();
  const Setup setup = setup_of(spec, info, *workload, group);
  auto strategy = info.make(setup);
  pulse.beat();
  GpuWatch gpus(pci_buses(gpus_of(setup)));
  RankRecord record = time_steps(*strategy, source, recording_steps(spec, source), sampling, group, pulse, gpus);
  strategy->finish();
  record.parameters_hash = fingerprint(strategy->parameters(), own_parameters(spec));
  record.threads = at::get_num_threads();
  group.barrier();
  strategy.reset();
  profile_case(spec, setup, source, sampling, group, pulse, record);
  if (sampling.measure_peak && each_replica_has_its_cores(spec, group))
    record.peak = measured_peak(setup.dtype, setup.devices.at(0));
  group.barrier();  // nobody tears down what another still uses
  return record;
}

}  // namespace dpbench
