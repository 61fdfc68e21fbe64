#include "harness/worker/measure/block_run.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "harness/worker/rank/host_memory.h"
#include "harness/worker/steps/case_setup.h"
#include "harness/worker/steps/tensor_checks.h"

namespace dpbench {
namespace {

// Untimed steps before each block of timed steps. `dpbench duel` alternates two builds, so the other build's block has
// evicted this build's data from the CPU caches.
constexpr int64_t rewarm_steps = 2;

const StrategyInfo& info_of(const CaseSpec& spec) { return strategy_registry().at(spec.strategy); }

}  // namespace

BlockRun::BlockRun(const CaseSpec& spec, int64_t warmup, const Group& group, Pulse& pulse,
                   const std::string& shared_dir)
    : case_id_(spec.id),
      own_(own_parameters(spec)),
      group_(group),
      workload_(workload_of(spec, shared_dir)),
      source_(*workload_, spec, info_of(spec), group.rank(), group.devices(1, spec.oversubscribe).at(0)),
      strategy_(info_of(spec).make(setup_of(spec, info_of(spec), *workload_, group))),
      timer_(*strategy_, source_, group, pulse) {
  const int64_t first = std::max<int64_t>(1, warmup / 2), rest = std::max<int64_t>(1, warmup - first);
  source_.prepare(0, first + rest);
  timer_.block(first);
  timer_.last_loss();
  timer_.run_extra(recording_steps(spec, source_));
  step_ns_ = static_cast<double>(timer_.block(rest)) / static_cast<double>(rest);
}

void BlockRun::finish() {
  strategy_->finish();
  group_.barrier();  // wait until all ranks are done before any rank tears down the process group
}

RankRecord BlockRun::block(const Sampling& sampling) {
  const int64_t steps = group_.agree(steps_for(step_ns_, sampling, source_.steps_per_epoch()));
  source_.prepare(timer_.step_index(), rewarm_steps + steps);
  timer_.block(rewarm_steps);
  RankRecord record;
  record.rank = group_.rank();
  record.steps_per_sample = steps;
  record.samples_ns = {timer_.block(steps)};
  record.last_loss = timer_.last_loss();
  record.peak_rss_bytes = peak_memory_bytes();
  record.own_rss_bytes = own_peak_memory_bytes();
  require_finite(*strategy_, timer_.step_index() - 1);
  record.parameters_hash = fingerprint(strategy_->parameters(), own_);
  record.threads = at::get_num_threads();
  return record;
}

}  // namespace dpbench
