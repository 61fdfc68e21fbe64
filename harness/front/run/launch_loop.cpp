#include "harness/front/run/launch_loop.h"

#include <algorithm>
#include <cstdio>

#include "harness/front/run/schedule.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/summarise.h"
#include "harness/report/machine/environment.h"

namespace dpbench {
namespace {

// Time spent in samples, by the slowest rank of every launch.
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

}  // namespace

LaunchLoop::LaunchLoop(const MeasuringOptions& options, Report& report, size_t planned, CaseRunner& runner,
                       ProgressLine& progress, Tell tell, Save save, Load load, int cores)
    : options_(options),
      report_(report),
      planned_(planned),
      runner_(runner),
      progress_(progress),
      tell_(std::move(tell)),
      save_(std::move(save)),
      load_(std::move(load)),
      others_(planned, OtherLoad(cores)),
      over_(planned, false),
      said_(planned, false) {
  for (size_t i = 0; i < planned; ++i) specs_.push_back(report.cases[i].spec);
}

LoopEnding LaunchLoop::run() {
  bool on = true;
  int index = 0;
  for (; on && index < options_.launches; ++index) on = launch(index, unfinished());
  if (on) finish_launches();
  for (; on && options_.max_noise_percent > 0; ++index) {
    const auto again = noisy();
    say_over_but(again);
    if (again.empty()) break;
    progress_.add_work(static_cast<int>(again.size()));
    on = launch(index, again);
  }
  say_other_load();
  if (on) report_.status = RunStatus::complete;
  return ending_;
}

void LaunchLoop::say_over(size_t which) {
  if (said_[which]) return;
  said_[which] = true;
  progress_.over(specs_[which].id, result_text(report_.cases[which]), monotonic_seconds());
}

void LaunchLoop::say_over_but(const std::vector<size_t>& which) {
  for (size_t i = 0; i < planned_; ++i)
    if (std::find(which.begin(), which.end(), i) == which.end()) say_over(i);
}

void LaunchLoop::say_other_load() {
  for (size_t i = 0; i < planned_; ++i)
    if (const std::string text = others_[i].warning(); !text.empty()) report_.cases[i].warnings.push_back(text);
}

bool LaunchLoop::launch(int index, const std::vector<size_t>& which) {
  for (const auto& members : launch_order(specs_, which, index, options_.what.seed))
    if (!run_group(index, members)) return false;
  return true;
}

bool LaunchLoop::run_group(int index, const std::vector<size_t>& members) {
  broken_start_.clear();
  int failed_starts = 0;
  for (const size_t which : members) {
    if (!run_case(index, which)) return false;
    // Starting does not depend on the case: what fails twice running is not tried for each of them.
    failed_starts = broken_start_.empty() ? 0 : failed_starts + 1;
    if (failed_starts < 2) broken_start_.clear();
  }
  for (const auto& complaint : runner_.end_group()) {
    report_.cases[members.back()].warnings.push_back(complaint);
    progress_.warning(complaint);
  }
  return true;
}

bool LaunchLoop::run_case(int index, size_t which) {
  const CaseSpec& spec = specs_[which];
  progress_.begin(spec.id, monotonic_seconds());
  CaseOutcome outcome;
  if (!broken_start_.empty())
    outcome = {.kind = CaseOutcome::Kind::failed, .reason = broken_start_};
  else
    outcome = watched_attempt(index, which);
  broken_start_ = outcome.never_started && outcome.kind == CaseOutcome::Kind::failed ? outcome.reason : broken_start_;
  if (!record(index, which, std::move(outcome))) return false;
  summarise(report_);
  save_();
  progress_.end(spec.id, result_text(report_.cases[which]), monotonic_seconds());
  if (over_[which] || (index + 1 >= options_.launches && options_.max_noise_percent == 0)) say_over(which);
  return true;
}

CaseOutcome LaunchLoop::watched_attempt(int index, size_t which) {
  const auto before = load_ ? load_() : std::nullopt;
  CaseOutcome outcome = attempt(index, which);
  const auto after = before && outcome.kind == CaseOutcome::Kind::ran ? load_() : std::nullopt;
  if (after) others_[which].add(*before, *after);
  return outcome;
}

CaseOutcome LaunchLoop::attempt(int index, size_t which) {
  const Json command = tell_(index);
  for (int retry = 0;; ++retry) {
    if (const int signal = runner_.pending_signal()) return {.kind = CaseOutcome::Kind::interrupted, .signal = signal};
    CaseOutcome outcome = runner_.run(specs_[which], command);
    if (outcome.kind == CaseOutcome::Kind::ran && retry > 0)
      report_.cases[which].warnings.push_back("launch " + std::to_string(index) + " ran only in attempt " +
                                              std::to_string(retry + 1));
    if (outcome.kind != CaseOutcome::Kind::failed || retry == options_.retries) return outcome;
    const std::string why = "attempt " + std::to_string(retry + 1) + " of launch " + std::to_string(index) +
                            " failed: " + first_line(outcome.reason);
    report_.cases[which].warnings.push_back(why);
    progress_.warning(specs_[which].id + ": " + why);
  }
}

bool LaunchLoop::record(int index, size_t which, CaseOutcome outcome) {
  CaseRecord& mine = report_.cases[which];
  mine.checks.insert(mine.checks.end(), outcome.checks.begin(), outcome.checks.end());
  set_loaded_versions(report_.env, outcome.versions);
  switch (outcome.kind) {
    case CaseOutcome::Kind::interrupted:
      ending_.signal = outcome.signal;
      return false;
    case CaseOutcome::Kind::usage:
      ending_.usage = outcome.reason;
      mine.status = CaseStatus::failed;
      mine.reason = outcome.reason;
      return false;
    case CaseOutcome::Kind::failed:
    case CaseOutcome::Kind::unavailable:
      over_[which] = true;
      mine.status = outcome.kind == CaseOutcome::Kind::failed ? CaseStatus::failed : CaseStatus::skipped;
      mine.reason = outcome.reason;
      return true;
    case CaseOutcome::Kind::ran:
      if (!outcome.ranks.empty()) mine.launches.push_back({.index = index, .ranks = std::move(outcome.ranks)});
      over_[which] = any_failed(mine.checks);
      if (over_[which] || index + 1 >= options_.launches) mine.status = CaseStatus::ok;
      return true;
  }
  return true;
}

// A case that failed in a later launch keeps its samples, and its status.
void LaunchLoop::finish_launches() {
  for (size_t i = 0; i < planned_; ++i)
    if (report_.cases[i].status == CaseStatus::interrupted) report_.cases[i].status = CaseStatus::ok;
  summarise(report_);
}

std::vector<size_t> LaunchLoop::unfinished() const {
  std::vector<size_t> which;
  for (size_t i = 0; i < planned_; ++i)
    if (!over_[i]) which.push_back(i);
  return which;
}

std::vector<size_t> LaunchLoop::noisy() const {
  std::vector<size_t> which;
  for (const size_t i : unfinished()) {
    CaseRecord& mine = report_.cases[i];
    if (!mine.step_time_ns) continue;
    const auto noise = mine.derived.noise;  // unknown of a single sample
    if (noise && *noise * 100 <= options_.max_noise_percent) continue;
    if (sampled_seconds(mine) < options_.sampling.max_time_s) {
      which.push_back(i);
      continue;
    }
    char text[96];
    if (noise)
      std::snprintf(text, sizeof text, "noise %.1f %% is above --max-noise %g %%: stopped at --max-time", *noise * 100,
                    options_.max_noise_percent);
    else
      std::snprintf(text, sizeof text, "--max-noise %g %% was not judged: --max-time left one sample",
                    options_.max_noise_percent);
    if (std::find(mine.warnings.begin(), mine.warnings.end(), text) == mine.warnings.end())
      mine.warnings.push_back(text);
  }
  return which;
}

std::string LaunchLoop::result_text(const CaseRecord& record) const {
  if (record.status == CaseStatus::failed || record.status == CaseStatus::skipped || record.status == CaseStatus::wrong)
    return record.status + ": " + one_line(first_line(record.reason), 160);
  if (record.launches.empty()) return std::to_string(record.checks.size()) + " checks, none failed";
  const auto samples = sample_step_ns(record.launches.back());
  if (samples.empty()) return "no samples";
  char text[64];
  const double ns = record.step_time_ns ? record.step_time_ns->median : median(samples);  // over the launches so far
  std::snprintf(text, sizeof text, "%.4g ms a step", ns * 1e-6);
  return text;
}

}  // namespace dpbench
