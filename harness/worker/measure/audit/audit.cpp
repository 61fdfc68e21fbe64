#include "harness/worker/measure/audit/audit.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <new>

#include <ATen/ATen.h>

#include "harness/conform/evidence/computing.h"
#include "harness/conform/evidence/exchange.h"
#include "harness/conform/judges/judge_course.h"
#include "harness/conform/oracle/oracle.h"
#include "harness/worker/rank/host_memory.h"

namespace dpbench {
namespace {

// An audit of a model with more parameter elements than this compares only some elements, chosen at random, unless
// gradients are clipped.
constexpr int64_t large_model = 1 << 22;
constexpr int64_t compared_elements = large_model / 4;  // number of elements that an audit of a large model compares
constexpr char check_name[] = "audit";
constexpr char compared[] = "steps of the timed run";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns a prefix for keys of the rendezvous store that no earlier Audit object of this process uses. All ranks get
// the same prefix.
std::string next_key() {
  static int made = 0;
  return "audit" + std::to_string(made++) + "/";
}

// Copies a tensor to the CPU, into memory that malloc does not manage. Freeing the copy thus leaves malloc's free
// memory as the timed steps need it, while UncountedMemory would return it to the kernel if malloc kept more than
// before.
at::Tensor copy_of(const at::Tensor& tensor) {
  const size_t bytes = tensor.nbytes();
  const auto options = tensor.options().device(at::kCPU).requires_grad(false);
  if (bytes == 0) return at::empty(tensor.sizes(), options);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, /*fd=*/-1,
                        /*offset=*/0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return at::from_blob(
             memory, tensor.sizes(), [bytes](void* begin) { ::munmap(begin, bytes); }, options)
      .copy_(tensor.detach());
}

// Copies the elements that `sample` selects to the CPU.
NamedTensors copies_of(const NamedTensors& tensors, const Sample& sample) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, copy_of(sample.of(tensor)));
  return copies;
}

Distribution distribution_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload) {
  return {.parallelism = info.parallelism,
          .world = spec.replicas(),
          .samples = workload.samples(),
          .mesh = parse_mesh(spec.mesh)};
}

// Returns the number of elements that an audit compares of each tensor; 0: all. With clipping, all elements are
// compared, because the norm of the gradient depends on all of them.
int64_t compared_of_each(Strategy& strategy, std::optional<double> clip_norm) {
  const UncountedMemory uncounted;
  int64_t elements = 0, tensors = 0;
  for (const auto& [name, tensor] : strategy.parameters()) elements += tensor.numel(), ++tensors;
  return elements > large_model && !clip_norm ? std::max<int64_t>(1, compared_elements / tensors) : 0;
}

AuditPlan::Launch launch_of(const Sampling& sampling, int replicas, bool single_steps) {
  return {.blocks = sampling.samples,
          .max_blocks_s = sampling.max_time_s,
          .replicas = replicas,
          .single_steps = single_steps};
}

}  // namespace

Audit::Audit(const CaseSpec& spec, const Setup& setup, Strategy& strategy, StepSource& source, StepTimer& timer,
             const Group& group, const Sampling& sampling)
    : info_(promised(strategy_registry().at(spec.strategy), setup.params)),
      group_(group),
      strategy_(strategy),
      source_(source),
      timer_(timer),
      bench_{info_,        setup.workload, distribution_of(spec, info_, setup.workload),
             group.rank(), setup.mesh,     setup.devices,
             spec.params,  spec.seed},
      dtype_(setup.dtype),
      accumulate_(setup.accumulate),
      clip_norm_(setup.clip_norm),
      python_(workload_registry().at(spec.workload).python),
      motion_(setup.workload.optimizer(), source.steps_per_epoch(), info_.skips_non_finite),
      sample_{.most_elements = compared_of_each(strategy, setup.clip_norm)},
      random_(std::random_device()()),
      plan_(launch_of(sampling, bench_.distribution.world, samples()), random_()),
      key_(next_key()) {
  look();
}

void Audit::look() {
  const UncountedMemory uncounted;
  const NamedTensors parameters = strategy_.parameters(), state = strategy_.state();
  if (group_.rank() == 0) motion_.look(timer_.step_index(), parameters, state);
}

void Audit::pretend(int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  const UncountedMemory uncounted;
  looked(steps);
  pretended_s_ += seconds_since(start);
}

bool Audit::between_blocks(int64_t block_steps, double timed_step_s) {
  const int64_t steps = group_.agree(plan_.before_block(block_steps, timed_step_s, seconds_since(begin_)));
  if (steps > 0) run(steps);
  return steps > 0;
}

void Audit::at_end(int64_t block_steps, bool always) {
  const int64_t steps = group_.agree(plan_.at_end(block_steps, seconds_since(begin_), always));
  if (steps > 0) run(steps);
}

std::vector<CheckRow> Audit::rows() const {
  std::vector<CheckRow> rows = rows_.all();
  std::string text = std::to_string(steps_) + " steps of the timed run, looked at " + std::to_string(plan_.audits()) +
                     " times, with the float64 oracle, in " +
                     std::to_string(std::lround(100 * (plan_.spent_s() + pretended_s_) / seconds_since(begin_))) +
                     " % of the time";
  if (samples()) text += ", in " + std::to_string(sample_.most_elements) + " elements of each parameter, drawn anew";
  for (CheckRow& row : rows) row.compared = text;
  return rows;
}

Evidence Audit::looked(int64_t steps) {
  Evidence seen;
  seen.rank = group_.rank();
  source_.prepare(timer_.step_index(), steps);
  // The oracle needs the whole parameters of rank 0, or those of every rank if the ranks' parameters may differ. A rank
  // whose whole parameters are not needed copies only the compared elements.
  const bool whole = seen.rank == 0 || info_.gradient == Gradient::local || !info_.own.empty();
  seen.parameters = copies_of(strategy_.parameters(), whole ? Sample{} : sample_);
  seen.buffers = copies_of(strategy_.buffers(), {});
  seen.state = copies_of(strategy_.state(), sample_);
  return seen;
}

Evidence Audit::observed(int64_t steps) {
  const int64_t first = timer_.step_index();
  Evidence seen = looked(steps);
  timer_.block(steps);
  for (int64_t step = first; step < first + steps; ++step) seen.steps.push_back({.ids = source_.ids(step)});
  StepEvidence& last = seen.steps.back();
  last.loss = timer_.result().loss.detach().cpu().clone();
  if (const at::Tensor output = timer_.result().whole_output(); output.defined())
    last.output = output.detach().cpu().clone();
  last.parameters = copies_of(strategy_.parameters(), sample_);
  last.buffers = copies_of(strategy_.buffers(), {});
  last.state = copies_of(strategy_.state(), sample_);
  return seen;
}

void Audit::run(int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  const UncountedMemory uncounted;
  const int64_t first = timer_.step_index();
  const std::string key = key_ + std::to_string(plan_.audits());
  if (samples()) sample_.seed = static_cast<uint64_t>(group_.agree(static_cast<int64_t>(random_() >> 1)));
  const Evidence mine = observed(steps);
  const bool ranks = bench_.distribution.owners() > 1;
  auto all =
      ranks ? gather_evidence(*group_.store(), key, group_.rank(), group_.world(), mine) : std::vector<Evidence>{mine};
  if (group_.rank() == 0) judge(first, steps, std::move(all));
  // While rank 0 judges, the other ranks wait for a key of the rendezvous store, because a wait on the process group
  // would end with a timeout.
  if (ranks) broadcast_text(*group_.store(), key + "/judged", group_.rank(), "");
  steps_ += steps;
  plan_.took(steps, seconds_since(start));
}

void Audit::judge(int64_t first, int64_t steps, std::vector<Evidence> ranks) {
  const Computing here;
  if (python_ && plan_.audits() == 0) refusal_ = why_not_judged(bench_.workload);
  if (refusal_) return rows_.skipped(check_name, compared, *refusal_);
  const Scenario scenario{.name = check_name,
                          .gradient_check = check_name,
                          .dtype = dtype_,
                          .accumulate = accumulate_,
                          .steps = steps,
                          .first = first,
                          .sample = sample_};
  const Trial trial{bench_, scenario, clip_norm_, std::move(ranks), {}, {}, {}};
  const auto record = [&](const Deviation& deviation) {
    rows_.measured(check_name, compared, deviation.error, 1, deviation.where, deviation.likely);
  };
  if (const Deviation moved = motion_.since_last(first, trial.ranks[0], sample_); moved.error > 0) record(moved);
  const Course exact = course_of(bench_, scenario, clip_norm_, trial.ranks, /*exact=*/true);
  if (exact.unknown.empty()) {
    const auto [course, state] = deviations_of(trial, exact);
    record(course);
    record(state);
  } else {
    // A skipped audit with a likely cause is the strategy's fault, so the case is unproven (why_unproven()).
    const std::string likely = exact.unreported ? "parameters() or state() leaves a tensor out" : "";
    rows_.add({check_name, CheckStatus::skipped, compared, {}, {}, exact.unknown, likely});
  }
  motion_.remember(first + steps, steps, trial.ranks[0], sample_);
}

}  // namespace dpbench
