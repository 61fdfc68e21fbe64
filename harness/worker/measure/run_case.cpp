#include "harness/worker/measure/run_case.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "harness/report/stats/stats.h"
#include "harness/worker/measure/peak.h"
#include "harness/worker/measure/profile_case.h"
#include "harness/worker/rank/cuda.h"
#include "harness/worker/rank/host_memory.h"
#include "harness/worker/steps/case_setup.h"
#include "harness/worker/steps/step_timer.h"
#include "harness/worker/steps/tensor_checks.h"

namespace dpbench {
namespace {

// True if no two replicas share cores. If they do, the machine's peak rates are not measured, as each replica would
// report the whole machine's peak. Every rank must call it and gets the same answer.
bool replicas_have_own_cores(const CaseSpec& spec, const Group& group) {
  if (spec.device != Device::cpu) return true;
  const auto processes = group.gather(host_and_cores());
  return group.agree(group.rank() != 0 || cores_for_all(processes, spec.world / spec.processes, spec.threads)) != 0;
}

std::vector<int> gpus_of(const Setup& setup) {
  std::vector<int> gpus;
  for (const at::Device& device : setup.devices)
    if (device.is_cuda()) gpus.push_back(device.index());
  return gpus;
}

int64_t percentile(const std::vector<int64_t>& readings, double q) {
  const std::vector<double> values(readings.begin(), readings.end());
  return std::llround(quantile(values, q));
}

}  // namespace

RankRecord time_steps(Strategy& strategy, StepSource& source, const std::vector<int64_t>& recording,
                      const Sampling& sampling, const Group& group, Pulse& pulse, GpuWatch& gpus) {
  StepTimer timer(strategy, source, group, pulse);
  RankRecord record;
  record.rank = group.rank();
  source.prepare(0, sampling.warmup);
  const int64_t first = std::max<int64_t>(1, sampling.warmup / 2), rest = std::max<int64_t>(1, sampling.warmup - first);
  timer.checked_block(first);
  record.first_loss = timer.last_loss();
  timer.run_extra(recording);
  const double step_ns = static_cast<double>(timer.block(rest)) / static_cast<double>(rest);
  const int64_t steps = group.agree(steps_for(step_ns, sampling, source.steps_per_epoch()));
  source.prepare(first + rest, steps * sampling.samples);

  record.steps_per_sample = steps;
  record.rows_per_step = static_cast<double>(source.rows(first + rest, steps)) / static_cast<double>(steps);
  std::vector<int64_t> readings;
  readings.reserve(static_cast<size_t>(steps) * static_cast<size_t>(sampling.samples));
  double spent_s = 0;
  gpus.start();
  for (int i = 0; i < sampling.samples; ++i) {
    record.samples_ns.push_back(timer.block(steps, &readings));
    gpus.read();
    spent_s += static_cast<double>(record.samples_ns.back()) * 1e-9;
    const bool out_of_time = group.agree(spent_s > sampling.max_time_s) != 0;
    if (!out_of_time || i + 1 == sampling.samples) continue;
    record.warnings.push_back("stopped by --max-time after " + std::to_string(i + 1) + " of " +
                              std::to_string(sampling.samples) + " samples");
    break;
  }
  record.gpus = gpus.counters();
  record.step_p50_ns = percentile(readings, 0.5);
  record.step_p90_ns = percentile(readings, 0.9);
  record.step_p99_ns = percentile(readings, 0.99);
  record.last_loss = timer.last_loss();
  record.peak_rss_bytes = peak_memory_bytes();
  record.own_rss_bytes = own_peak_memory_bytes();
  // Check gradients and parameters too: the last step's loss was computed before its update.
  require_finite(strategy, timer.step_index() - 1);
  return record;
}

RankRecord run_case(const CaseSpec& spec, const Sampling& sampling, const Group& group, Pulse& pulse,
                    const std::string& shared_dir) {
  const StrategyInfo& info = strategy_registry().at(spec.strategy);
  const auto workload = workload_of(spec, shared_dir);
  StepSource source(*workload, spec, info, group.rank(), group.devices(1, spec.oversubscribe).at(0));
  reset_peak_memory();
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
  if (sampling.measure_peak && replicas_have_own_cores(spec, group))
    record.peak = measured_peak(setup.dtype, setup.devices.at(0));
  group.barrier();  // wait until all ranks are done before any rank tears down the process group
  return record;
}

}  // namespace dpbench
