// dpbench check: runs the conformance suite on the planned cases. It times nothing and saves no run.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/front/cli/measuring_flags.h"
#include "harness/front/commands/check/check_files.h"
#include "harness/front/commands/check/check_text.h"
#include "harness/front/commands/commands.h"
#include "harness/front/plan/check_rows.h"
#include "harness/front/plan/layouts.h"
#include "harness/front/run/run.h"
#include "harness/front/run/table.h"
#include "harness/front/text/text.h"
#include "harness/report/export/export.h"
#include "harness/report/text/pattern.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

std::string failed_names(const std::vector<CheckRow>& checks) {
  std::string names;
  for (const CheckRow& row : checks)
    if (row.status == CheckStatus::failed) names += row.name + " ";
  return names;
}

// True if a simplified case fails in the same way as the original: the same check fails in both, or neither runs to its
// end.
bool fails_alike(const CaseRecord& record, const CaseOutcome& outcome) {
  const bool ended = record.status != CaseStatus::failed;
  if (!ended || outcome.kind == CaseOutcome::Kind::failed) return !ended && outcome.kind == CaseOutcome::Kind::failed;
  return std::ranges::any_of(outcome.checks, [&](const CheckRow& row) {
    const auto same = [&](const CheckRow& other) {
      return other.status == CheckStatus::failed && other.name == row.name;
    };
    return row.status == CheckStatus::failed && std::ranges::any_of(record.checks, same);
  });
}

class CheckRun : public ReportRun {
 public:
  CheckRun(const CheckingOptions& options, World* world) : ReportRun(options, world, ""), check_options_(options) {}

 private:
  // Plans the cases. For --layouts, first chooses the strategies and workloads among which layouts are drawn. Throws
  // UsageError for a --filter that matches no check of this build.
  void plan() override {
    if (Selection& what = prepared_.options.what; what.draws_layouts()) name_layouts(what, prepared_.catalogue);
    ReportRun::plan();
    const std::string& filter = check_options_.check_filter;
    if (filter.empty() || prepared_.catalogue.checks.empty()) return;
    const auto matches = [pattern = NamePattern(filter)](const CheckEntry& check) {
      return pattern.matches(check.name);
    };
    if (std::ranges::none_of(prepared_.catalogue.checks, matches))
      throw UsageError("no check matches --filter '" + one_line(filter, 100) + "'; " + shell_command("list checks") +
                       " prints all");
  }

  Start begin() override {
    junit_.emplace(check_options_.junit);
    dump_.emplace(check_options_.dump);
    return ReportRun::begin();
  }

  LoopEnding run_cases() override {
    const Signals signals;
    Launcher launcher(worker_settings(prepared_, logs()), signals, Event::checked, note());
    launcher.on_checking([this](const auto& id, const auto& state) { progress_->state(id, state); });
    LoopEnding ended = run_launches(launcher, [&](int, const CaseSpec& spec) { return order(spec); });
    if (check_options_.what.draws_layouts()) shrink_failures(launcher);
    excuse_probes();
    if (ended.usage.empty() && !ended.signal && judged() + count_checks(report_, CheckStatus::skipped) == 0 &&
        !check_options_.check_filter.empty() && !ending_of(report_).failed)
      ended.usage = "no check matched --filter '" + one_line(check_options_.check_filter, 100) + "'";
    return ended;
  }

  // Returns the largest world in which the checks of a case include the costly scenarios.
  int whole_worlds(const CaseSpec& spec) const {
    const bool all = check_options_.what.draws_layouts() && runs_costly_scenarios(spec);
    return all ? max_world : check_options_.what.check->whole_worlds;
  }

  Json order(const CaseSpec& spec) const {
    return {{"do", name_of(Order::check)},
            {"filter", check_options_.check_filter},
            {"seeds", check_options_.seeds},
            {"whole_worlds", whole_worlds(spec)},
            {"dump", check_options_.dump.empty() ? "" : fs::absolute(check_options_.dump).string()}};
  }

  bool is_probe(const CaseRecord& record) const {
    const WorkloadEntry* entry = find_entry(prepared_.catalogue.workloads, record.spec.workload);
    return entry && entry->probe;
  }

  // True if a case was checked in part, unless it is a probe and another case of its strategy was checked as a whole.
  bool has_gaps() const {
    return std::ranges::any_of(report_.cases, [&](const CaseRecord& record) {
      const auto whole = [&](const CaseRecord& other) {
        return other.spec.strategy == record.spec.strategy && other.ok() && !checked_in_part(other);
      };
      return checked_in_part(record) && !(is_probe(record) && std::ranges::any_of(report_.cases, whole));
    });
  }

  // Marks an unproven case (all checks of its gradients and updates were skipped) as skipped if another case of its
  // strategy was checked and one of these holds: the unproven case is a probe (small test model); the strategy refused
  // it, and the same workload was checked with several ranks (any workload, if `check` draws cases, because it then
  // runs each workload once); or the strategy refused its kind of model (UnsuitableModel), and a real workload was
  // checked.
  void excuse_probes() {
    for (CaseRecord& record : report_.cases) {
      if (record.status != CaseStatus::unproven) continue;
      const bool excused = std::ranges::any_of(report_.cases, [&](const CaseRecord& other) {
        const bool judged = other.spec.strategy == record.spec.strategy && (other.ok() || other.bad());
        const bool other_world = other.spec.world > 1 && (other.spec.workload == record.spec.workload ||
                                                          check_options_.what.check->draws_cases);
        return judged && (is_probe(record) || (record.refusal != Refusal::none && other_world) ||
                          (record.refusal == Refusal::model && !is_probe(other)));
      });
      if (excused) record.status = CaseStatus::skipped;
    }
  }

  // Simplifies up to three failing cases whose failed checks differ. Simplifies the mesh, model, parameters, dtype or
  // recomputation of a case step by step, as long as the case still fails in the same way.
  void shrink_failures(Launcher& launcher) {
    constexpr size_t most = 3;
    std::set<std::string> known;
    for (const CaseRecord& record : report_.cases) {
      const std::string failed = failed_names(record.checks);
      if (!record.bad() || known.size() == most || !known.insert(failed).second) continue;
      const CaseSpec smallest = shrunk(record, launcher);
      smallest_.push_back("smallest layout that fails like " + record.spec.id + ":\n  " +
                          repeating_command(smallest, record.spec.world <= whole_worlds(record.spec)) + plugin_flags());
    }
  }

  std::string plugin_flags() const {
    const Selection& what = check_options_.what;
    std::string flags;
    for (const std::string& file : what.plugins) flags += " --plugin " + shell_word(file);
    return what.python.empty() ? flags : flags + " --python " + shell_word(what.python);
  }

  CaseSpec shrunk(const CaseRecord& record, Launcher& launcher) {
    CaseSpec spec = record.spec;
    const WorkloadEntry& workload = *find_entry(prepared_.catalogue.workloads, spec.workload);
    int trials = 60;
    const auto fails = [&](const CaseSpec& one) {
      progress_->state(one.id, "shrinking");
      return fails_alike(record, launcher.run(one, order(record.spec)));
    };
    for (bool found = true; found;) {
      found = false;
      for (const CaseSpec& simpler : simpler_layouts(spec, workload)) {
        if (launcher.pending_signal() || --trials < 0) return spec;
        found = fails(simpler);
        if (!found) continue;
        spec = simpler;
        break;
      }
    }
    return spec;
  }

  int judged() const { return count_checks(report_, CheckStatus::passed) + count_checks(report_, CheckStatus::failed); }

  // Makes a run in which no check passed or failed end with exit code 77 (unavailable), because a run that checked
  // nothing is not a success. A run that checked a case in part ends with exit code 4.
  Ending ending() const override {
    Ending end = ending_of(report_);
    end.unavailable = end.unavailable || judged() == 0;
    end.inconclusive = (end.inconclusive || has_gaps()) && !end.unavailable;
    return end;
  }

  // Returns a message for each case that failed to run. Failed checks are left out: the output already lists them.
  std::vector<std::string> complaints() const override {
    std::vector<std::string> lines;
    for (const auto& record : report_.cases)
      if (record.status == CaseStatus::failed) lines.push_back(record.spec.id + " failed: " + record.reason);
    return lines;
  }

  std::string output() const override {
    if (check_options_.output == Form::json) return json_text(to_json(report_));
    if (check_options_.output != Form::table) return rows_text(check_rows(report_), {}, check_options_.output);
    return check_options_.verbose ? every_check(report_) : check_summary(report_);
  }

  bool write_extra_files() override {
    const std::string why = junit_->write(junit_xml(report_));
    if (!why.empty()) progress_->warning(why);
    return why.empty();
  }

  std::string closing_line(bool) const override { return check_counts(report_); }
  std::vector<std::string> hints() const override { return smallest_; }

  const CheckingOptions& check_options_;
  std::optional<JunitFile> junit_;
  std::optional<DumpDirectory> dump_;
  std::vector<std::string> smallest_;  // descriptions of the simplest layouts that fail
};

}  // namespace

Command check_command() {
  return measuring_command<CheckingOptions, CheckRun>(
      {.name = "check",
       .arguments = "[FLAGS]",
       .summary = "prove that strategies are right: gradients, buffers and optimizer steps",
       .examples = {{"check --strategy ddp --cpus 2", "failed checks, by what they look like"},
                    {"check --strategy ddp --cpus 2 --verbose", "every check with its error and bound"},
                    {"check --plugin ./mine.so --strategy mine --junit checks.xml", ""}},
       .exit_codes = {1, 3, 4, 77, 128}},
      add_check_flags, settle_check);
}

}  // namespace dpbench
