#include "harness/front/run/duel/duel_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "harness/front/run/schedule.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/machine/environment.h"
#include "harness/report/record/report.h"

namespace dpbench {
namespace {

const char* side_name(bool is_base) { return is_base ? "base: " : "new: "; }

// True if the ranks ended a timed block with different model parameters.
bool parameters_differ(const std::vector<RankRecord>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const RankRecord& rank) { return rank.parameters_hash != ranks.front().parameters_hash; });
}

std::string failed_check(const std::vector<CheckRow>& checks) {
  const CheckRow* row = root_failure(checks);
  return row ? "check " + row->name + " failed" + (row->detail.empty() ? "" : ": " + row->detail) : "";
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
                   ProgressLine& progress, Save save, int cores, ReadCpuTimes cpu_times)
    : options_(options),
      report_(report),
      base_(base),
      now_(now),
      cores_(cores),
      cpu_times_(std::move(cpu_times)),
      progress_(progress),
      save_(std::move(save)),
      decided_(report.cases.size(), false),
      random_(static_cast<uint64_t>(report.order_seed)) {
  for (const DuelCase& record : report.cases) specs_.push_back(record.spec);
}

LoopEnding DuelLoop::run() {
  bool keep_going = true;
  for (int index = 0; keep_going && !undecided().empty(); ++index) keep_going = launch(index);
  if (keep_going) report_.status = RunStatus::complete;
  return ending_;
}

bool DuelLoop::launch(int index) {
  const auto which = undecided();
  if (index > 0) progress_.add_work(static_cast<int>(which.size()));
  for (const auto& members : launch_order(specs_, which, index, static_cast<uint64_t>(report_.order_seed))) {
    for (const size_t member : members) {
      DuelCase& record = report_.cases[member];
      progress_.begin(record.spec.id, monotonic_seconds());
      const bool keep_going = measure_pairs(index, record);
      decided_[member] = record.status != DuelStatus::interrupted;
      const std::string text = progress_text(record, decided_[member]);
      progress_.end(record.spec.id, text, monotonic_seconds());
      if (decided_[member]) progress_.over(record.spec.id, text, monotonic_seconds());
      save_();
      if (!keep_going) return false;
    }
    end_groups(report_.cases[members.back()]);
  }
  return true;
}

// Measures pairs of blocks for one case. Returns false if the whole duel must stop; a failed case does not stop the
// duel.
bool DuelLoop::measure_pairs(int index, DuelCase& record) {
  const auto over = [&] { return record.status != DuelStatus::interrupted; };
  const auto stopped = [&] { return ending_.signal != 0 || !ending_.usage.empty(); };
  if (index == 0 && !calibrate(record)) return !stopped();
  record.launches.emplace_back();
  const LoadWatch others(cpu_times_);
  int disturbed = 0;
  for (int pair = 0; pair < options_.pairs_per_launch && !over(); ++pair) {
    if (!measure_pair(record)) return !stopped();
    if (starved_ && !quiet(others.load()) && disturbed++ < 2 * options_.pairs_per_launch) {
      record.launches.back().pop_back();
      --pair;
      continue;
    }
    const auto taken = static_cast<int>(pairs_of(record));
    if (std::count(report_.rule.looks.begin(), report_.rule.looks.end(), taken) > 0) judge(record);
  }
  if (options_.sampling.audit) audit_last_steps(record, /*always=*/index == 0 || over());
  return !stopped();
}

// Runs one block (timed run of steps) of each build without storing its time, with checks if they are enabled. The base
// build determines the number of steps per block. Returns false if the case cannot be measured.
bool DuelLoop::calibrate(DuelCase& record) {
  if (!run_block(true, options_.check, record) || !run_block(false, options_.check, record)) return false;
  const std::string base_fault = failed_check(record.base_checks), new_fault = failed_check(record.new_checks);
  if (base_fault.empty() && new_fault.empty()) return true;
  record.status = new_fault.empty() ? DuelStatus::unmeasured : DuelStatus::wrong;
  record.reason = new_fault.empty() ? "base: " + base_fault : "new: " + new_fault;
  return false;
}

bool DuelLoop::measure_pair(DuelCase& record) {
  const bool base_first = random_() % 2 == 0;
  starved_ = false;
  DuelPair pair{.first = base_first ? Side::base : Side::now};
  const auto first = run_block(base_first, false, record);
  const auto second = first ? run_block(!base_first, false, record) : std::nullopt;
  if (!second) return false;
  pair.base_ns = base_first ? *first : *second;
  pair.new_ns = base_first ? *second : *first;
  record.launches.back().push_back(pair);
  return true;
}

// Ends the launch of a case in both builds, which audit its last steps: at least one if `always` is true, otherwise by
// chance. If an audit fails, it replaces the verdict on the launch's pairs.
void DuelLoop::audit_last_steps(DuelCase& record, bool always) {
  for (const bool is_base : {true, false})
    if (!answer(is_base, /*check=*/false,
                {{"do", name_of(Order::end)},
                 {"sampling", to_json(options_.sampling)},
                 {"last_steps", always},
                 {"blocks", Json::array()},
                 {"retake", false},
                 {"profile", false}},
                record))
      return;
}

std::optional<CaseOutcome> DuelLoop::answer(bool is_base, bool check, const Json& command, DuelCase& record) {
  CaseRunner& runner = is_base ? base_ : now_;
  CaseOutcome outcome{.kind = CaseOutcome::Kind::interrupted};
  outcome.signal = runner.pending_signal();
  if (outcome.signal == 0) outcome = runner.run(record.spec, command);
  if (is_base) set_loaded_versions(report_.env, outcome.versions);
  for (CheckRow& row : outcome.checks)
    if (!record.launches.empty() && row.status == CheckStatus::failed && !row.detail.empty())
      row.detail += ", launch " + std::to_string(record.launches.size() - 1);
  add_checks(is_base ? record.base_checks : record.new_checks, outcome.checks);
  if (outcome.kind != CaseOutcome::Kind::ran) return fail(is_base, record, outcome), std::nullopt;
  // After timed steps (`check` is false) there are no checks but audits, which compare such steps with the oracle. So
  // the failed check is an audit.
  if (const std::string fault = failed_check(outcome.checks); !check && !fault.empty()) {
    record.status = is_base ? DuelStatus::unmeasured : DuelStatus::wrong;
    record.reason = side_name(is_base) + fault;
    return std::nullopt;
  }
  if (parameters_differ(outcome.ranks)) {
    record.status = is_base ? DuelStatus::unmeasured : DuelStatus::wrong;
    record.reason = side_name(is_base) + std::string("ranks ended a block with different parameters");
    return std::nullopt;
  }
  return outcome;
}

std::optional<int64_t> DuelLoop::run_block(bool is_base, bool check, DuelCase& record) {
  Sampling sampling = options_.sampling;
  if (record.steps_per_block > 0) sampling.steps = record.steps_per_block;
  const auto outcome = answer(
      is_base, check, {{"do", name_of(Order::block)}, {"sampling", to_json(sampling)}, {"check", check}}, record);
  if (!outcome) return std::nullopt;
  starved_ = starved_ || (!options_.keep_disturbed && starved(record.spec, outcome->ranks, cores_));
  const int64_t slowest = slowest_ns(outcome->ranks);
  if (outcome->ranks.empty() && check && !failed_check(outcome->checks).empty())
    return slowest;  // the block has no timed steps because a check failed; DuelLoop::calibrate() reports that check
  if (slowest == 0) {
    record.status = DuelStatus::failed;
    record.reason = side_name(is_base) + std::string("a block has no timed steps");
    return std::nullopt;
  }
  record.steps_per_block = outcome->ranks.front().steps_per_sample;
  return slowest;
}

void DuelLoop::fail(bool is_base, DuelCase& record, const CaseOutcome& outcome) {
  const std::string reason = side_name(is_base) + outcome.reason;
  switch (outcome.kind) {
    case CaseOutcome::Kind::interrupted:
      ending_.signal = outcome.signal;
      record.status = DuelStatus::interrupted;  // even after a verdict: the audit of the last steps is missing
      record.reason.clear();
      return;
    case CaseOutcome::Kind::usage:
      ending_.usage = reason;
      [[fallthrough]];
    case CaseOutcome::Kind::failed:
      record.status = DuelStatus::failed;
      break;
    default:
      record.status = DuelStatus::skipped;
  }
  record.reason = reason;
  // A worker of an older build answers with this text if it does not know the message that starts a timed block.
  if (reason.find("unknown command of the front") != std::string::npos)
    record.reason += "; this build does not support duel. Store runs of both builds and compare them";
}

void DuelLoop::judge(DuelCase& record) {
  const auto logs = log_ratios(record);
  record.look = duel_look(logs, static_cast<int>(record.launches.size()), report_.rule, report_.cases.size());
  const bool last = next_look(report_.rule, record.look.pairs) == 0;
  if (record.look.verdict == Verdict::unclear && !last) return;
  record.status = DuelStatus::ok;
  if (record.look.verdict == Verdict::unclear) record.reason = why_unclear(record.look, report_.rule);
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
