#include "harness/worker/measure/audit.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "harness/conform/evidence/computing.h"
#include "harness/conform/evidence/exchange.h"
#include "harness/conform/judges/judge_course.h"
#include "harness/worker/rank/host_memory.h"
#include "workloads/base/runtime.h"

namespace dpbench {
namespace {

constexpr double share_of_time = 0.1;  // largest share of a case's time that its audits take
constexpr int64_t most_steps = 64;     // rounding errors grow with the number of steps
constexpr char check_name[] = "audit";
constexpr char compared[] = "steps of the timed run";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns a key of the rendezvous store that no earlier audit of this process uses. Every rank gets the same.
std::string next_key() {
  static int made = 0;
  return "audit" + std::to_string(made++) + "/";
}

Layout layout_of(const CaseSpec& spec, const StrategyInfo& info, const Workload& workload) {
  return {.parallelism = info.parallelism, .world = spec.world, .samples = workload.samples()};
}

}  // namespace

Audit::Audit(const CaseSpec& spec, const Setup& setup, Strategy& strategy, StepSource& source, StepTimer& timer,
             const Group& group)
    : info_(promised(strategy_registry().at(spec.strategy), setup.params)),
      group_(group),
      strategy_(strategy),
      source_(source),
      timer_(timer),
      bench_{info_,
             setup.workload,
             layout_of(spec, info_, setup.workload),
             group.rank(),
             group.process_group(),
             setup.devices,
             spec.params,
             spec.seed},
      dtype_(setup.dtype),
      accumulate_(setup.accumulate),
      clip_norm_(setup.clip_norm),
      motion_(setup.workload.optimizer()),
      random_(std::random_device()()),
      key_(next_key()) {}

// Returns the largest number of steps that an audit may take now; 0: none.
int64_t Audit::affordable(int64_t block_steps) const {
  const double left_s = share_of_time * seconds_since(begin_) - spent_s_;
  if (left_s <= shortest_s_) return 0;
  if (audits_ == 0) return 1;  // shows what an audit costs
  return std::min({1 + static_cast<int64_t>((left_s - shortest_s_) / step_s_), 2 * block_steps, most_steps});
}

void Audit::between_blocks(int64_t block_steps) {
  int64_t steps = 0;
  if (group_.rank() == 0)
    if (const int64_t most = affordable(block_steps); most > 0 && random_() % 2 == 0)
      // The logarithm of the number of steps is uniform, so short and long stretches are equally frequent.
      steps = std::llround(std::exp(std::uniform_real_distribution(0.0, std::log(static_cast<double>(most)))(random_)));
  steps = group_.agree(steps);
  if (steps > 0) run(steps);
}

void Audit::at_end(int64_t block_steps) {
  // The loss of a single step would not show whether the step before it updated the parameters.
  run(group_.agree(std::max<int64_t>(2, affordable(block_steps))));
}

std::vector<CheckRow> Audit::rows() const {
  std::vector<CheckRow> rows = rows_.all();
  for (CheckRow& row : rows)
    row.compared = std::to_string(steps_) + " steps of the timed run, looked at " + std::to_string(audits_) +
                   " times, with the float64 oracle";
  return rows;
}

Evidence Audit::observed(int64_t steps) {
  Evidence seen;
  seen.rank = group_.rank();
  const int64_t first = timer_.step_index();
  source_.prepare(first, steps);
  Snapshot before = snapshot_of(strategy_);
  timer_.block(steps);
  for (int64_t step = first; step < first + steps; ++step) seen.steps.push_back({.ids = source_.ids(step)});
  StepEvidence& last = seen.steps.back();
  last.loss = timer_.result().loss.detach().cpu().clone();
  if (timer_.result().output.defined()) last.output = timer_.result().output.detach().cpu().clone();
  Snapshot after = snapshot_of(strategy_);
  seen.parameters = std::move(before.parameters);
  seen.buffers = std::move(before.buffers);
  seen.state = std::move(before.state);
  last.parameters = std::move(after.parameters);
  last.buffers = std::move(after.buffers);
  last.state = std::move(after.state);
  return seen;
}

void Audit::run(int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  const UncountedMemory uncounted;
  const int64_t first = timer_.step_index();
  const Evidence mine = observed(steps);
  const bool ranks = bench_.layout.owners() > 1;
  auto all = ranks
                 ? gather_evidence(*group_.store(), key_ + std::to_string(audits_), group_.rank(), group_.world(), mine)
                 : std::vector<Evidence>{mine};
  if (group_.rank() == 0) judge(first, steps, std::move(all));
  // The store waits without a limit, unlike the process group.
  if (ranks) broadcast_text(*group_.store(), key_ + std::to_string(audits_) + "/judged", group_.rank(), "");
  ++audits_;
  steps_ += steps;
  const double took = seconds_since(start);
  spent_s_ += took;
  if (audits_ == 1) {
    shortest_s_ = took;
    step_s_ = took / static_cast<double>(4 * steps);  // a guess, until an audit of several steps shows it
  } else if (steps > 1) {
    step_s_ = std::max((took - shortest_s_) / static_cast<double>(steps - 1), 1e-2 * shortest_s_);
  }
}

void Audit::judge(int64_t first, int64_t steps, std::vector<Evidence> ranks) {
  const Computing here;
  const int64_t nodes = nodes_run_by_engine();
  const Scenario scenario{.name = check_name,
                          .gradient_check = check_name,
                          .dtype = dtype_,
                          .accumulate = accumulate_,
                          .steps = steps,
                          .first = first};
  const Trial trial{bench_, scenario, clip_norm_, std::move(ranks), {}, {}, {}};
  const auto record = [&](const Deviation& deviation) {
    rows_.measured(check_name, compared, deviation.error, 1, deviation.where, deviation.likely);
  };
  if (const Deviation moved = motion_.since_last(first, trial.ranks[0]); moved.error > 0) record(moved);
  const Course exact = course_of(bench_, scenario, clip_norm_, trial.ranks, /*exact=*/true);
  if (exact.unknown.empty()) {
    std::optional<Course> rounded;
    if (dtype_ != at::kDouble) rounded = course_of(bench_, scenario, clip_norm_, trial.ranks, /*exact=*/false);
    record(course_deviation(trial, exact, rounded ? &*rounded : nullptr));
    record(state_deviation(trial, exact, rounded ? &*rounded : nullptr));
  } else {
    rows_.skipped(check_name, compared, exact.unknown);
  }
  motion_.remember(first + steps, steps, trial.ranks[0]);
  engine_nodes_ += nodes_run_by_engine() - nodes;
}

}  // namespace dpbench
