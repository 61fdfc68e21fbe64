#include "harness/front/run/launch_loop.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "harness/front/run/schedule.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/figures/summarise.h"
#include "harness/report/machine/environment.h"

namespace dpbench {
namespace {

// Returns a case's time in timed blocks: the sum, over all launches, of the slowest rank's time.
double sampled_seconds(const CaseRecord& record) {
  double total = 0;
  for (const auto& launch : record.launches) {
    double slowest = 0;
    for (const auto& rank : launch.ranks) {
      double ns = 0;
      for (const int64_t sample : rank.samples_ns) ns += static_cast<double>(sample);
      slowest = std::max(slowest, ns);
    }
    total += slowest * 1e-9;
  }
  return total;
}

// Marks all blocks of a launch as disturbed and drops their measurements.
void drop_blocks(CaseOutcome& outcome) {
  if (!outcome.ranks.empty()) outcome.disturbed_blocks += static_cast<int>(outcome.ranks.front().samples_ns.size());
  for (RankRecord& rank : outcome.ranks) {
    for (const BlockSeries series : block_series()) (rank.*series).clear();
    rank.step_p50_ns = rank.step_p90_ns = rank.step_p99_ns = 0;
    rank.phases_ns.clear();
    rank.profile.reset();
    rank.peak.reset();
  }
  outcome.reference_ns.clear();
}

}  // namespace

LaunchLoop::LaunchLoop(const MeasuringOptions& options, Report& report, size_t planned, CaseRunner& runner,
                       ProgressLine& progress, MakeCommand make_command, Save save, ReadCpuTimes cpu_times, int cores)
    : options_(options),
      report_(report),
      planned_(planned),
      runner_(runner),
      progress_(progress),
      make_command_(std::move(make_command)),
      save_(std::move(save)),
      cpu_times_(std::move(cpu_times)),
      cores_(cores),
      finished_(planned, false),
      refused_(planned, false),
      printed_(planned, false) {
  for (size_t i = 0; i < planned; ++i) specs_.push_back(report.cases[i].spec);
}

LoopEnding LaunchLoop::run() {
  bool keep_going = true;
  int index = 0;
  for (; keep_going && (choose_ || index < options_.launches); ++index) {
    const std::vector<size_t> which = choose_ ? choose_(index, unfinished()) : unfinished();
    if (choose_ && which.empty()) break;
    keep_going = launch(index, which);
  }
  if (keep_going) finish_launches();
  for (; keep_going && options_.max_noise_percent > 0; ++index) {
    const auto again = noisy();
    print_results_except(again);
    if (again.empty()) break;
    progress_.add_work(static_cast<int>(again.size()));
    keep_going = launch(index, again);
  }
  if (keep_going) judge_refusals();
  if (keep_going) report_.status = RunStatus::complete;
  return ending_;
}

void LaunchLoop::print_result(size_t which) {
  if (printed_[which]) return;
  printed_[which] = true;
  progress_.over(specs_[which].id, result_text(report_.cases[which]), monotonic_seconds());
}

void LaunchLoop::print_results_except(const std::vector<size_t>& which) {
  for (size_t i = 0; i < planned_; ++i)
    if (std::find(which.begin(), which.end(), i) == which.end()) print_result(i);
}

// A strategy may refuse some cases, such as a workload that it does not fit. If it refused all of its cases, and the
// user named it or set its parameters, the user's choice is wrong: a usage error.
void LaunchLoop::judge_refusals() {
  std::set<std::string> accepting;  // strategies that accepted at least one case
  for (size_t i = 0; i < planned_; ++i)
    if (!refused_[i]) accepting.insert(specs_[i].strategy);
  for (size_t i = 0; i < planned_; ++i) {
    const bool chosen = !options_.what.strategies.empty() || !specs_[i].params.empty();
    if (!chosen || accepting.contains(specs_[i].strategy)) continue;
    report_.cases[i].status = CaseStatus::failed;
    if (ending_.usage.empty()) ending_.usage = report_.cases[i].reason;
  }
}

bool LaunchLoop::launch(int index, const std::vector<size_t>& which) {
  for (const auto& members : launch_order(specs_, which, index, options_.what.seed))
    if (!run_group(index, members)) return false;
  if (!which.empty()) complain(which.back(), runner_.end_launch());
  return true;
}

void LaunchLoop::complain(size_t which, const std::vector<std::string>& complaints) {
  for (const auto& complaint : complaints) {
    report_.cases[which].warnings.push_back(complaint);
    progress_.warning(complaint);
  }
}

bool LaunchLoop::run_group(int index, const std::vector<size_t>& members) {
  broken_start_.clear();
  int failed_starts = 0;
  for (const size_t which : members) {
    if (!run_case(index, which)) return false;
    // Whether a process group starts does not depend on the case. After two failed starts in a row, the remaining cases
    // of the group fail without being tried.
    failed_starts = broken_start_.empty() ? 0 : failed_starts + 1;
    if (failed_starts < 2) broken_start_.clear();
  }
  complain(members.back(), runner_.end_group());
  return true;
}

bool LaunchLoop::run_case(int index, size_t which) {
  const CaseSpec& spec = specs_[which];
  const double began = monotonic_seconds();
  progress_.begin(spec.id, began);
  CaseOutcome outcome;
  if (!broken_start_.empty())
    outcome = {.kind = CaseOutcome::Kind::failed, .reason = broken_start_};
  else
    outcome = attempt_with_load(index, which);
  report_.cases[which].elapsed_s += monotonic_seconds() - began;
  broken_start_ = outcome.never_started && outcome.kind == CaseOutcome::Kind::failed ? outcome.reason : broken_start_;
  if (!store(index, which, std::move(outcome))) return false;
  summarise(report_);
  save_();
  progress_.end(spec.id, result_text(report_.cases[which]), monotonic_seconds());
  if (finished_[which] || (index + 1 >= options_.launches && options_.max_noise_percent == 0)) print_result(which);
  return true;
}

// Runs one launch of a case. Unless disturbed blocks count, repeats it once if it was disturbed: the host of the
// virtual machine withheld cores, or other programs took cores of a case with more threads than cores. A launch with a
// failed check or audit is not repeated, because the repeated one may have no such audit.
CaseOutcome LaunchLoop::attempt_with_load(int index, size_t which) {
  int dropped = 0;
  for (int attempt = 0;; ++attempt) {
    CaseOutcome outcome = measured_attempt(index, which);
    const bool disturbed = outcome.others && disturbs(*outcome.others, specs_[which], cores_);
    if (disturbed && !options_.keep_disturbed) drop_blocks(outcome);
    dropped += outcome.disturbed_blocks;
    outcome.disturbed_blocks = dropped;
    if (!disturbed || options_.keep_disturbed || attempt == 1 || any_failed(outcome.checks)) return outcome;
  }
}

CaseOutcome LaunchLoop::measured_attempt(int index, size_t which) {
  const LoadWatch others(cpu_times_);
  CaseOutcome outcome = attempt(index, which);
  if (outcome.kind == CaseOutcome::Kind::ran) outcome.others = others.load();
  return outcome;
}

CaseOutcome LaunchLoop::attempt(int index, size_t which) {
  const Json command = make_command_(index, specs_[which]);
  for (int retry = 0;; ++retry) {
    if (const int signal = runner_.pending_signal()) return {.kind = CaseOutcome::Kind::interrupted, .signal = signal};
    CaseOutcome outcome = runner_.run(specs_[which], command);
    if (outcome.kind == CaseOutcome::Kind::ran && retry > 0)
      report_.cases[which].warnings.push_back("launch " + std::to_string(index) + " succeeded only in attempt " +
                                              std::to_string(retry + 1));
    if (outcome.kind != CaseOutcome::Kind::failed || retry == options_.retries) return outcome;
    const std::string why = "attempt " + std::to_string(retry + 1) + " of launch " + std::to_string(index) +
                            " failed: " + first_line(outcome.reason);
    report_.cases[which].warnings.push_back(why);
    progress_.warning(specs_[which].id + ": " + why);
  }
}

bool LaunchLoop::store(int index, size_t which, CaseOutcome outcome) {
  CaseRecord& record = report_.cases[which];
  for (CheckRow& row : outcome.checks)
    if (options_.launches > 1 && row.status == CheckStatus::failed && !row.detail.empty())
      row.detail += ", launch " + std::to_string(index);
  add_checks(record.checks, std::move(outcome.checks));
  record.refusal = std::max(record.refusal, outcome.refusal);
  set_loaded_versions(report_.env, outcome.versions);
  switch (outcome.kind) {
    case CaseOutcome::Kind::interrupted:
      ending_.signal = outcome.signal;
      return false;
    case CaseOutcome::Kind::usage:
      record.refusal = std::max(record.refusal, Refusal::scenario);
      record.status = outcome.never_started ? CaseStatus::failed : CaseStatus::skipped;
      record.reason = outcome.reason;
      finished_[which] = refused_[which] = true;
      if (outcome.never_started) ending_.usage = outcome.reason;
      return !outcome.never_started;
    case CaseOutcome::Kind::failed:
    case CaseOutcome::Kind::unavailable:
      finished_[which] = true;
      record.status = outcome.kind == CaseOutcome::Kind::failed ? CaseStatus::failed : CaseStatus::skipped;
      record.reason = outcome.reason;
      record.out_of_memory = outcome.out_of_memory;
      return true;
    case CaseOutcome::Kind::ran:
      if (!outcome.means.empty()) record.means = outcome.means;
      if (!outcome.ranks.empty())
        record.launches.push_back({.index = index,
                                   .ranks = std::move(outcome.ranks),
                                   .reference_ns = std::move(outcome.reference_ns),
                                   .disturbed_blocks = outcome.disturbed_blocks,
                                   .others = outcome.others,
                                   .order = launches_of(report_)});
      finished_[which] = any_failed(record.checks);
      // A case gets the status ok after its last launch. If `choose_` is set, it gets this status after each launch,
      // because the choice of the next launch's cases compares the results so far. After a failed check, summarise()
      // replaces ok by wrong.
      if (finished_[which] || choose_ || index + 1 >= options_.launches) record.status = CaseStatus::ok;
      return true;
  }
  return true;
}

// Marks cases as ok if they completed all launches. A case that failed in a later launch keeps its earlier blocks and
// its failed status.
void LaunchLoop::finish_launches() {
  for (size_t i = 0; i < planned_; ++i)
    if (report_.cases[i].status == CaseStatus::interrupted) report_.cases[i].status = CaseStatus::ok;
  summarise(report_);
}

std::vector<size_t> LaunchLoop::unfinished() const {
  std::vector<size_t> which;
  for (size_t i = 0; i < planned_; ++i)
    if (!finished_[i]) which.push_back(i);
  return which;
}

std::vector<size_t> LaunchLoop::noisy() const {
  std::vector<size_t> which;
  for (const size_t i : unfinished()) {
    CaseRecord& record = report_.cases[i];
    if (!record.step_time_ns) continue;
    const auto noise = record.derived.noise;  // the noise is unset if the case has only a single block
    if (noise && *noise * 100 <= options_.max_noise_percent) continue;
    if (sampled_seconds(record) < options_.sampling.max_time_s) {
      which.push_back(i);
      continue;
    }
    char text[96];
    if (noise)
      std::snprintf(text, sizeof text, "noise %.1f %% is above --max-noise %g %%: stopped at --max-time", *noise * 100,
                    options_.max_noise_percent);
    else
      std::snprintf(text, sizeof text, "--max-noise %g %% was not judged: --max-time allowed only one sample",
                    options_.max_noise_percent);
    if (std::find(record.warnings.begin(), record.warnings.end(), text) == record.warnings.end())
      record.warnings.push_back(text);
  }
  return which;
}

std::string LaunchLoop::result_text(const CaseRecord& record) const {
  if (!record.ok() && !record.reason.empty()) return record.status + ": " + one_line(first_line(record.reason), 160);
  if (record.launches.empty()) return std::to_string(record.checks.size()) + " checks, none failed";
  const auto samples = sample_step_ns(record.launches.back());
  if (samples.empty()) return "no samples";
  char text[64];
  // The step time so far is the median over the launches that have ended.
  const double ns = record.step_time_ns ? record.step_time_ns->median : median(samples);
  std::snprintf(text, sizeof text, "%.4g ms a step", ns * 1e-6);
  return text;
}

}  // namespace dpbench
