#include "harness/front/run/duel_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "harness/front/run/schedule.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/environment.h"

namespace dpbench {
namespace {

const char* side_name(bool of_base) { return of_base ? "base: " : "new: "; }

// Of ranks that ended a block with unlike parameters.
bool parameters_differ(const std::vector<RankRecord>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const RankRecord& rank) { return rank.parameters_hash != ranks.front().parameters_hash; });
}

std::string failed_check(const std::vector<CheckRow>& checks) {
  for (const CheckRow& row : checks)
    if (row.status == CheckStatus::failed)
      return "check " + row.name + " failed" + (row.detail.empty() ? "" : ": " + row.detail);
  return "";
}

size_t pairs_of(const DuelCase& record) { return log_ratios(record).size(); }

std::string progress_text(const DuelCase& record, bool clear) {
  if (record.status != DuelStatus::interrupted && record.status != DuelStatus::ok)
    return record.status + ": " + record.reason;
  const auto logs = log_ratios(record);
  if (logs.empty()) return "no pair yet";
  char text[96];
  std::snprintf(text, sizeof text, "%zu pairs, %+.1f %%%s", logs.size(), 100 * std::expm1(median(logs)),
                clear ? "" : ", not clear yet");
  return text;
}

}  // namespace

DuelLoop::DuelLoop(const DuelOptions& options, DuelReport& report, CaseRunner& base, CaseRunner& now,
                   ProgressLine& progress, Save save)
    : options_(options),
      report_(report),
      base_(base),
      now_(now),
      progress_(progress),
      save_(std::move(save)),
      decided_(report.cases.size(), false),
      random_(static_cast<uint64_t>(report.order_seed)) {
  for (const DuelCase& record : report.cases) specs_.push_back(record.spec);
}

LoopEnding DuelLoop::run() {
  bool on = true;
  for (int index = 0; on && !undecided().empty(); ++index) on = launch(index);
  if (on) report_.status = RunStatus::complete;
  return ending_;
}

bool DuelLoop::launch(int index) {
  const auto which = undecided();
  if (index > 0) progress_.add_work(static_cast<int>(which.size()));
  for (const auto& members : launch_order(specs_, which, index, static_cast<uint64_t>(report_.order_seed))) {
    for (const size_t member : members) {
      DuelCase& mine = report_.cases[member];
      progress_.begin(mine.spec.id, monotonic_seconds());
      const bool on = take_pairs(index, mine);
      decided_[member] = mine.status != DuelStatus::interrupted;
      const std::string text = progress_text(mine, decided_[member]);
      progress_.end(mine.spec.id, text, monotonic_seconds());
      if (decided_[member]) progress_.over(mine.spec.id, text, monotonic_seconds());
      save_();
      if (!on) return false;
    }
    end_groups(report_.cases[members.back()]);
  }
  return true;
}

// True: go on with the next case, also when this one failed.
bool DuelLoop::take_pairs(int index, DuelCase& mine) {
  const auto over = [&] { return mine.status != DuelStatus::interrupted; };
  const auto stopped = [&] { return ending_.signal != 0 || !ending_.usage.empty(); };
  if (index == 0 && !agree_on_steps(mine)) return !stopped();
  mine.launches.emplace_back();
  for (int pair = 0; pair < options_.pairs_per_launch && !over(); ++pair) {
    if (!take_pair(mine)) break;
    const auto taken = static_cast<int>(pairs_of(mine));
    if (std::count(report_.rule.looks.begin(), report_.rule.looks.end(), taken) > 0) judge(mine);
  }
  return !stopped();
}

// A block of each that does not count: the base build says how many steps fill one, and both are checked.
bool DuelLoop::agree_on_steps(DuelCase& mine) {
  if (!block(true, options_.check, mine) || !block(false, options_.check, mine)) return false;
  const std::string base_fault = failed_check(mine.base_checks), new_fault = failed_check(mine.new_checks);
  if (base_fault.empty() && new_fault.empty()) return true;
  mine.status = new_fault.empty() ? DuelStatus::unmeasured : DuelStatus::wrong;
  mine.reason = new_fault.empty() ? "base: " + base_fault : "new: " + new_fault;
  return false;
}

bool DuelLoop::take_pair(DuelCase& mine) {
  const bool base_first = random_() % 2 == 0;
  DuelPair pair{.first = base_first ? Side::base : Side::now};
  const auto first = block(base_first, false, mine);
  const auto second = first ? block(!base_first, false, mine) : std::nullopt;
  if (!second) return false;
  pair.base_ns = base_first ? *first : *second;
  pair.new_ns = base_first ? *second : *first;
  mine.launches.back().push_back(pair);
  return true;
}

std::optional<int64_t> DuelLoop::block(bool of_base, bool check, DuelCase& mine) {
  CaseRunner& runner = of_base ? base_ : now_;
  CaseOutcome outcome{.kind = CaseOutcome::Kind::interrupted};
  Sampling sampling = options_.sampling;
  if (mine.steps_per_block > 0) sampling.steps = mine.steps_per_block;
  outcome.signal = runner.pending_signal();
  if (outcome.signal == 0)
    outcome = runner.run(mine.spec, {{"do", name_of(Order::block)}, {"sampling", to_json(sampling)}, {"check", check}});
  if (of_base) set_loaded_versions(report_.env, outcome.versions);
  auto& checks = of_base ? mine.base_checks : mine.new_checks;
  checks.insert(checks.end(), outcome.checks.begin(), outcome.checks.end());
  if (outcome.kind != CaseOutcome::Kind::ran) return fail(of_base, mine, outcome), std::nullopt;
  if (parameters_differ(outcome.ranks)) {
    mine.status = of_base ? DuelStatus::unmeasured : DuelStatus::wrong;
    mine.reason = side_name(of_base) + std::string("ranks ended a block with unlike parameters");
    return std::nullopt;
  }
  int64_t slowest = 0;
  for (const RankRecord& rank : outcome.ranks)
    for (const int64_t ns : rank.samples_ns) slowest = std::max(slowest, ns);
  if (outcome.ranks.empty() && check && !failed_check(outcome.checks).empty())
    return slowest;  // agree_on_steps says which
  if (slowest == 0) {
    mine.status = DuelStatus::failed;
    mine.reason = side_name(of_base) + std::string("nothing was timed in a block");
    return std::nullopt;
  }
  mine.steps_per_block = outcome.ranks.front().steps_per_sample;
  return slowest;
}

void DuelLoop::fail(bool of_base, DuelCase& mine, const CaseOutcome& outcome) {
  const std::string reason = side_name(of_base) + outcome.reason;
  switch (outcome.kind) {
    case CaseOutcome::Kind::interrupted:
      ending_.signal = outcome.signal;
      return;
    case CaseOutcome::Kind::usage:
      ending_.usage = reason;
      [[fallthrough]];
    case CaseOutcome::Kind::failed:
      mine.status = DuelStatus::failed;
      break;
    default:
      mine.status = DuelStatus::skipped;
  }
  mine.reason = reason;
  if (reason.find("unknown command of the front") != std::string::npos)
    mine.reason += "; this build is older than duel: store runs of both and compare them";
}

void DuelLoop::judge(DuelCase& mine) {
  const auto logs = log_ratios(mine);
  mine.look = duel_look(logs, static_cast<int>(mine.launches.size()), report_.rule, report_.cases.size());
  const bool last = next_look(report_.rule, mine.look.pairs) == 0;
  if (mine.look.verdict == Verdict::unclear && !last) return;
  mine.status = DuelStatus::ok;
  if (mine.look.verdict == Verdict::unclear) mine.reason = why_unclear(mine.look, report_.rule);
}

void DuelLoop::end_groups(DuelCase& last) {
  for (CaseRunner* runner : {&base_, &now_})
    for (const auto& complaint : runner->end_group()) {
      last.warnings.push_back(side_name(runner == &base_) + complaint);
      progress_.warning(last.warnings.back());
    }
}

std::vector<size_t> DuelLoop::undecided() const {
  std::vector<size_t> which;
  for (size_t i = 0; i < decided_.size(); ++i)
    if (!decided_[i]) which.push_back(i);
  return which;
}

}  // namespace dpbench
