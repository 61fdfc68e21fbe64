#include "harness/worker/measure/audit.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/evidence/computing.h"
#include "harness/conform/evidence/exchange.h"
#include "harness/conform/judges/judge_course.h"
#include "harness/worker/rank/host_memory.h"

namespace dpbench {
namespace {

constexpr double share_of_time = 0.1;  // largest share of a case's time that its audits may take
constexpr int64_t most_steps = 64;  // steps of an audit at most, because rounding errors grow with the number of steps
// Estimated time of an audit of one step, per replica, relative to a timed step. An audit recomputes the replicas one
// after another, each in float64 and in the case's dtype. The first audit replaces the estimate by a measured time.
constexpr double cost_of_replica = 7;
// Number of parameter elements of a model above which an audit compares only some elements, chosen at random (without
// gradient clipping).
constexpr int64_t large_model = 1 << 22;
constexpr int64_t compared_elements = large_model / 4;  // elements of a large model that an audit compares
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

// Copies the elements that `sample` selects to the CPU.
NamedTensors copies_of(const NamedTensors& tensors, const Sample& sample) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor part = sample.of(tensor);
    copies.emplace_back(name, part.detach().to(at::kCPU, part.scalar_type(), false, /*copy=*/true));
  }
  return copies;
}

Distribution distribution_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload) {
  return {.parallelism = info.parallelism,
          .world = spec.replicas(),
          .samples = workload.samples(),
          .mesh = parse_mesh(spec.mesh)};
}

}  // namespace

Audit::Audit(const CaseSpec& spec, const Setup& setup, Strategy& strategy, StepSource& source, StepTimer& timer,
             const Group& group)
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
      motion_(setup.workload.optimizer(), source.steps_per_epoch()),
      random_(std::random_device()()),
      key_(next_key()) {
  int64_t elements = 0, tensors = 0;
  for (const auto& [name, tensor] : strategy.parameters()) elements += tensor.numel(), ++tensors;
  // With clipping, all elements are compared, because the norm of the gradient depends on all of them.
  if (elements > large_model && !clip_norm_) sample_.most_elements = std::max<int64_t>(1, compared_elements / tensors);
}

// Returns the maximum number of steps that an audit may take now so that `reserved_s` of the time limit remains; 0:
// none.
int64_t Audit::affordable(int64_t block_steps, double reserved_s) const {
  const double left_s = share_of_time * seconds_since(begin_) - spent_s_ - reserved_s;
  if (left_s <= shortest_s_) return 0;
  if (audits_ == 0 || samples()) return 1;  // the first audit measures the time of an audit
  return std::min({1 + static_cast<int64_t>((left_s - shortest_s_) / step_s_), 2 * block_steps, most_steps});
}

void Audit::between_blocks(int64_t block_steps, double timed_step_s) {
  int64_t steps = 0;
  if (audits_ == 0) shortest_s_ = step_s_ = cost_of_replica * bench_.distribution.world * timed_step_s;
  const double last_audit_s = shortest_s_ + step_s_;
  if (group_.rank() == 0)
    if (const int64_t most = affordable(block_steps, last_audit_s); most > 0 && random_() % 2 == 0)
      // The logarithm of the number of steps is uniform, so short and long audits are equally frequent.
      steps = std::llround(std::exp(std::uniform_real_distribution(0.0, std::log(static_cast<double>(most)))(random_)));
  steps = group_.agree(steps);
  if (steps > 0) run(steps);
}

void Audit::at_end(int64_t block_steps) {
  // The loss of a single step would not show whether the step before it updated the parameters.
  run(group_.agree(samples() ? 1 : std::max<int64_t>(2, affordable(block_steps, 0))));
}

std::vector<CheckRow> Audit::rows() const {
  std::vector<CheckRow> rows = rows_.all();
  std::string text = std::to_string(steps_) + " steps of the timed run, looked at " + std::to_string(audits_) +
                     " times, with the float64 oracle, in " +
                     std::to_string(std::lround(100 * spent_s_ / seconds_since(begin_))) + " % of the time";
  if (samples()) text += ", in " + std::to_string(sample_.most_elements) + " elements of each parameter, drawn anew";
  for (CheckRow& row : rows) row.compared = text;
  return rows;
}

Evidence Audit::observed(int64_t steps) {
  Evidence seen;
  seen.rank = group_.rank();
  const int64_t first = timer_.step_index();
  source_.prepare(first, steps);
  // The oracle starts from whole parameters: rank 0's, or each rank's if they differ.
  const bool whole = seen.rank == 0 || info_.gradient == Gradient::local || !info_.own.empty();
  seen.parameters = copies_of(strategy_.parameters(), whole ? Sample{} : sample_);
  seen.buffers = copies_of(strategy_.buffers(), {});
  seen.state = copies_of(strategy_.state(), sample_);
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
  if (samples()) sample_.seed = static_cast<uint64_t>(group_.agree(static_cast<int64_t>(random_() >> 1)));
  const Evidence mine = observed(steps);
  const bool ranks = bench_.distribution.owners() > 1;
  auto all = ranks
                 ? gather_evidence(*group_.store(), key_ + std::to_string(audits_), group_.rank(), group_.world(), mine)
                 : std::vector<Evidence>{mine};
  if (group_.rank() == 0) judge(first, steps, std::move(all));
  // The ranks wait for rank 0 through the store, because a wait on the process group would end with a timeout.
  if (ranks) broadcast_text(*group_.store(), key_ + std::to_string(audits_) + "/judged", group_.rank(), "");
  ++audits_;
  steps_ += steps;
  const double took = seconds_since(start);
  spent_s_ += took;
  if (audits_ == 1) {
    shortest_s_ = took;
    step_s_ = took / static_cast<double>(4 * steps);  // an estimate, until an audit of several steps measures it
  } else if (steps > 1) {
    step_s_ = std::max((took - shortest_s_) / static_cast<double>(steps - 1), 1e-2 * shortest_s_);
  }
}

void Audit::judge(int64_t first, int64_t steps, std::vector<Evidence> ranks) {
  const Computing here;
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
    std::optional<Course> rounded;
    if (dtype_ != at::kDouble) rounded = course_of(bench_, scenario, clip_norm_, trial.ranks, /*exact=*/false);
    record(course_deviation(trial, exact, rounded ? &*rounded : nullptr));
    record(state_deviation(trial, exact, rounded ? &*rounded : nullptr));
  } else {
    rows_.skipped(check_name, compared, exact.unknown);
  }
  motion_.remember(first + steps, steps, trial.ranks[0], sample_);
}

}  // namespace dpbench
