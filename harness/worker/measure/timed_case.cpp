#include "harness/worker/measure/timed_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "harness/report/figures/disturbance.h"
#include "harness/report/stats/stats.h"
#include "harness/worker/measure/peak.h"
#include "harness/worker/measure/profile_case.h"
#include "harness/worker/rank/core_use.h"
#include "harness/worker/rank/cuda.h"
#include "harness/worker/rank/host_memory.h"
#include "harness/worker/rank/tensor_memory.h"
#include "harness/worker/steps/case_setup.h"
#include "harness/worker/steps/tensor_checks.h"
#include "workloads/base/runtime.h"

namespace dpbench {
namespace {

// Returns the number of untimed steps before each block, which refill the caches after a block of another case or
// build: two, or one if a step is long. It is always two if the user sets the steps per block, so that it does not
// depend on a measured time.
int64_t rewarm_steps(const Sampling& sampling, double step_ns) { return sampling.steps == 0 && step_ns > 5e6 ? 1 : 2; }

const StrategyInfo& info_of(const CaseSpec& spec) { return strategy_registry().at(spec.strategy); }

// True if the replicas do not share cores, and always on a GPU. Otherwise the peak measurement is skipped, as each
// replica would report the whole machine's peak. Every rank must call it and gets the same answer.
bool replicas_have_own_cores(const CaseSpec& spec, const Group& group) {
  if (spec.device != Device::cpu) return true;
  const auto processes = group.gather(host_and_cores());
  return group.agree(group.rank() != 0 || cores_for_all(processes, spec.world / spec.processes, spec.threads)) != 0;
}

// Resets the memory peaks, so that no earlier case's peak counts for this case, and returns the case's setup.
Setup setup_after_reset(const CaseSpec& spec, const Workload& workload, const Group& group) {
  reset_peak_memory();
  return setup_of(spec, info_of(spec), workload, group);
}

std::vector<int> gpus_of(const Setup& setup) {
  std::vector<int> gpus;
  for (const at::Device& device : setup.devices)
    if (device.is_cuda()) gpus.push_back(device.index());
  return gpus;
}

int64_t percentile(const std::vector<int64_t>& readings, double q) {
  if (readings.empty()) return 0;
  const std::vector<double> values(readings.begin(), readings.end());
  return std::llround(quantile(values, q));
}

}  // namespace

TimedCase::TimedCase(const CaseSpec& spec, const Sampling& sampling, const Group& group, Pulse& pulse,
                     const std::string& shared_dir)
    : spec_(spec),
      own_(own_parameters(spec)),
      group_(group),
      pulse_(pulse),
      workload_(workload_of(spec, shared_dir)),
      source_(*workload_, spec, info_of(spec), group.rank(), group.devices(1, spec.oversubscribe).at(0)),
      tensors_before_(tensor_bytes()),
      setup_(setup_after_reset(spec, *workload_, group)),
      strategy_(info_of(spec).make(setup_)),
      timer_(*strategy_, source_, group, pulse),
      gpus_(pci_buses(gpus_of(setup_))) {
  pulse_.beat();
  const int64_t first = std::max<int64_t>(1, sampling.warmup / 2), rest = std::max<int64_t>(1, sampling.warmup - first);
  source_.prepare(0, first + rest);
  timer_.checked_block(first);
  first_loss_ = timer_.last_loss();
  timer_.run_extra(recording_steps(spec, source_));
  if (sampling.audit) audit_.emplace(spec_, setup_, *strategy_, source_, timer_, group_, sampling);
  step_ns_ = warm_step_ns(rest);
  rewarm_steps_ = rewarm_steps(sampling, step_ns_);
  if (audit_) audit_->look();
}

// Runs warm-up steps in up to four pieces and returns the mean step time of the fastest piece on rank 0. In a slower
// piece, steps may have waited for CPU cores; a block planned with their time would have too few steps.
double TimedCase::warm_step_ns(int64_t steps) {
  constexpr int64_t pieces = 4;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t done = 0, next = 0; done < steps; done = next) {
    next = std::min(steps, done + (steps + pieces - 1) / pieces);
    least = std::min(least, timer_.block(next - done) / (next - done));
  }
  return static_cast<double>(group_.agree(least));
}

std::vector<CheckRow> TimedCase::audits() const { return audit_ ? audit_->rows() : std::vector<CheckRow>{}; }

RankRecord TimedCase::block(const Sampling& sampling) {
  steps_ = steps_for(step_ns_, sampling, source_.steps_per_epoch());
  rewarm(steps_);
  if (audit_ && audit_->between_blocks(steps_, step_ns_ * 1e-9)) {
    read_results();
    rewarm(steps_);
  }
  if (audit_) audit_->pretend(leading_steps_ + steps_);
  gpus_.start();
  samples_ += source_.samples(timer_.step_index() + leading_steps_, steps_);
  timed_steps_ += steps_;
  restart_tensor_peak();
  const CoreUse use;
  // The first step after a look finds other data in the caches, so it is not timed.
  const int64_t ns = timer_.block(steps_, &readings_.emplace_back(), leading_steps_);
  const CoreUse::Spent spent = use.spent();
  step_tensor_bytes_ = std::max(step_tensor_bytes_, tensor_peak_bytes() - tensors_before_);
  group_.barrier();  // at this barrier the backend can detect that a rank skipped a collective
  gpus_.read();
  call_accessors();
  RankRecord record = figures();
  record.samples_ns = {ns};
  record.cpu_ns = {spent.cpu_within(ns)};
  record.switches = {spent.switches};
  if (spent.queue_ns) record.queue_ns = {*spent.queue_ns};
  record.parameters_hash = read_results();
  return record;
}

// Runs untimed steps before the look that begins a block or an audit. Draws how many of the rewarm_steps_ run here; the
// others, at least one, follow the look, so that the number of steps between two looks does not tell where the timed
// steps begin. Prepares the samples of these steps and of the coming_steps after them.
void TimedCase::rewarm(int64_t coming_steps) {
  source_.prepare(timer_.step_index(), rewarm_steps_ + coming_steps);
  const auto drawn = static_cast<int64_t>(random_() % static_cast<uint64_t>(rewarm_steps_));
  leading_steps_ = group_.agree(1 + drawn);
  if (leading_steps_ < rewarm_steps_) timer_.block(rewarm_steps_ - leading_steps_);
}

// Reads gradients and parameters, as after every block. Throws if one is not finite, which the last step's loss does
// not show, because it was computed before the update. Returns the parameters' hash, or an empty text if each rank has
// its own parameters.
std::string TimedCase::read_results() {
  require_finite(*strategy_, timer_.step_index() - 1);
  return info_of(spec_).gradient == Gradient::local ? "" : fingerprint(strategy_->parameters(), own_);
}

// Calls parameters(), buffers() and state(), as audits do, so that a strategy cannot recognize an audit by these calls.
void TimedCase::call_accessors() {
  if (!audit_) return;
  const UncountedMemory uncounted;
  strategy_->parameters();
  strategy_->buffers();
  strategy_->state();
}

RankRecord TimedCase::figures() const {
  RankRecord record;
  record.rank = group_.rank();
  record.threads = at::get_num_threads();
  record.steps_per_sample = steps_;
  if (timed_steps_ > 0) record.rows_per_step = static_cast<double>(samples_) / static_cast<double>(timed_steps_);
  record.tokens_per_sample = workload_->tokens_per_sample();
  record.flop_per_sample = workload_->flop_per_sample();
  record.first_loss = first_loss_;
  record.last_loss = timer_.last_loss();
  record_peaks(record);
  record.step_tensor_bytes = step_tensor_bytes_;
  return record;
}

void TimedCase::finish() {
  strategy_->finish();
  group_.barrier();  // wait until all ranks are done before any rank tears down the process group
}

// True if a rank's threads had to wait for CPU cores during its profile, although the replicas do not share cores.
// Collective.
bool TimedCase::profile_lacked_cores(const RankRecord& record) const {
  at::Tensor lacked = at::tensor({int64_t{profile_starved(spec_, {record}, /*cores=*/0)}}, at::kLong);
  group_.max(lacked);
  return replicas_have_own_cores(spec_, group_) && lacked.item<int64_t>() != 0;
}

RankRecord TimedCase::end(const std::vector<size_t>& blocks, bool always_audited) {
  std::vector<int64_t> readings;
  for (const size_t block : blocks)
    readings.insert(readings.end(), readings_.at(block).begin(), readings_.at(block).end());
  RankRecord record = figures();
  record.gpus = gpus_.counters();
  record.step_p50_ns = percentile(readings, 0.5);
  record.step_p90_ns = percentile(readings, 0.9);
  record.step_p99_ns = percentile(readings, 0.99);
  if (audit_) {
    rewarm(0);
    audit_->at_end(steps_, always_audited);
  }
  strategy_->finish();
  record_parameters(strategy_->parameters(), own_, record);
  group_.barrier();
  strategy_.reset();
  return record;
}

void TimedCase::profile(const Sampling& sampling, bool retake, RankRecord& record) {
  const bool by_engine = profile_case(spec_, setup_, source_, sampling, group_, pulse_, record);
  if (by_engine && runtime() == Runtime::fast && setup_.devices.at(0).is_cpu())
    record.warnings.emplace_back("calls torch's engine, not dpbench::backward(loss): compare it with --runtime torch");
  const bool divides_blocks = info_of(spec_).live_parameters && spec_.world > 1;
  // A sharded strategy communicates a model without blocks (layers to gather one after another) as a whole. Only models
  // in Python are checked for blocks, because the check constructs the model again, which may take seconds.
  if (divides_blocks && workload_registry().at(spec_.workload).python && workload_->model(0)->blocks().empty())
    record.warnings.emplace_back("the model is one unit, communicated whole: model() does not return an nn.Sequential");
  const bool time_left = static_cast<double>(timed_steps_) * step_ns_ * 1e-9 < sampling.max_time_s;
  if (retake && time_left && profile_lacked_cores(record))
    profile_case(spec_, setup_, source_, sampling, group_, pulse_, record);
  if (sampling.measure_peak && replicas_have_own_cores(spec_, group_))
    record.peak = measured_peak(setup_.dtype, setup_.devices.at(0));
  group_.barrier();
}

}  // namespace dpbench
