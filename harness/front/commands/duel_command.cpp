// dpbench duel: measures two builds of dpbench alternately and compares their speed.
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "harness/front/cli/measuring_flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/worker_program.h"
#include "harness/front/run/choose_threads.h"
#include "harness/front/run/duel/duel_loop.h"
#include "harness/front/run/run.h"
#include "harness/front/run/table.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/tool.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Calls `work` for one of the two builds of a duel. A usage error then names the build's flag, --base or --new.
void for_build(const char* flag, const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& error) {
    throw UsageError(std::string(flag) + ": " + error.what());
  }
}

Prepared prepare_build(MeasuringOptions options, const std::string& build, const std::vector<std::string>& plugins) {
  options.what.plugins.insert(options.what.plugins.end(), plugins.begin(), plugins.end());
  return prepare(std::move(options), build.empty() ? find_worker() : worker_of_build(build));
}

std::vector<std::string> ids_without(const Plan& plan, const Plan& other) {
  std::vector<std::string> ids;
  for (const CaseSpec& spec : plan.cases)
    if (std::none_of(other.cases.begin(), other.cases.end(), [&](const CaseSpec& its) { return its.id == spec.id; }))
      ids.push_back(spec.id);
  return ids;
}

DuelBuild build_of(const Prepared& side) {
  return {.worker = side.worker, .torch = side.catalogue.torch, .plugins = side.options.what.plugins};
}

// Creates the duel's report. Its machine description and configuration are taken from the base build.
DuelReport new_duel_report(const Prepared& base, const Prepared& now, const DuelOptions& options) {
  DuelReport report;
  // The order of cases and builds is random, with a new seed for each duel. With a fixed seed, an effect of the order
  // would look like a difference between the builds in every duel.
  report.order_seed = 1 + int64_t{std::random_device{}()};
  report.tool = tool_block(options.argv);
  report.env = environment(this_machine(), base.gpus.accelerators, versions_of(base.catalogue));
  report.config = config_json(base.options);
  report.config["pairs_per_launch"] = options.pairs_per_launch;
  report.base = build_of(base);
  report.now = build_of(now);
  if (options.pairs > 0) report.rule.looks = {options.pairs};
  report.gone = ids_without(base.plan, now.plan);
  report.added = ids_without(now.plan, base.plan);
  for (const CaseSpec& spec : base.plan.cases)
    if (std::find(report.gone.begin(), report.gone.end(), spec.id) == report.gone.end())
      report.cases.push_back({.spec = spec});
  if (report.cases.empty()) throw UsageError("nothing to compare: the builds have no case in common");
  return report;
}

class DuelRun : public Run {
 public:
  DuelRun(const DuelOptions& options, World* world) : Run(options, world, "duel"), duel_options_(options) {}

  void prepare() override {
    if (duel_options_.base.empty() && duel_options_.now.empty() && duel_options_.base_plugins.empty() &&
        duel_options_.new_plugins.empty())
      throw UsageError("duel needs two builds: " + shell_command("duel --base PROGRAM|DIR --new PROGRAM|DIR") +
                       " (or --base-plugin, --new-plugin)");
    for_build("--base",
              [&] { prepared_ = prepare_build(duel_options_, duel_options_.base, duel_options_.base_plugins); });
    for_build("--new", [&] { now_ = prepare_build(duel_options_, duel_options_.now, duel_options_.new_plugins); });
  }
  void plan() override {
    for_build("--base", [&] { plan_cases(prepared_); });
    for_build("--new", [&] { plan_cases(now_); });
  }

 private:
  const Plan& shown_plan() const override { return now_.plan; }

  Start begin() override {
    // Numbers of threads are chosen with the base build and used for both builds.
    choose_threads(prepared_, [](const std::string&) {});
    report_ = new_duel_report(prepared_, now_, duel_options_);
    return {.id = report_.id,
            .tool = report_.tool,
            .env = report_.env,
            .cases = report_.cases.size(),
            .launches = 1,
            .warnings = environment_warnings(report_.env)};
  }

  LoopEnding run_cases() override {
    const Signals signals;
    Launcher base(worker_settings(prepared_, logs() / "base", "base: "), signals, Event::ran, note());
    Launcher now(worker_settings(now_, logs() / "new", "new: "), signals, Event::ran, note());
    return DuelLoop(
               duel_options_, report_, base, now, *progress_, [this] { save(false); }, prepared_.machine.cores,
               cpu_times_reader())
        .run();
  }

  bool measured() const override {
    return std::ranges::any_of(report_.cases, [](const DuelCase& record) { return !log_ratios(record).empty(); });
  }

  Json json() const override { return to_json(report_); }

  Ending ending() const override {
    const size_t all = report_.cases.size();
    return {.usage = report_.count(DuelStatus::unmeasured) == all,
            .failed = report_.count(DuelStatus::failed) > 0,
            .wrong = report_.count(DuelStatus::wrong) + report_.count(Verdict::slower) > 0,
            .inconclusive = duel_options_.strict && report_.inconclusive(),
            .unavailable = report_.count(DuelStatus::skipped) == all};
  }

  std::vector<std::string> complaints() const override { return bad_cases(report_.cases); }

  std::string output() const override {
    if (duel_options_.output == Form::none) return "";
    return duel_options_.output == Form::json
               ? json_text(to_json(report_))
               : judgement_text(duel_rows(report_), duel_columns_right(), duel_summary(report_), duel_options_.output);
  }

  const DuelOptions& duel_options_;
  Prepared now_;  // worker, machine and plan of the new build; those of the base build are in prepared_
  DuelReport report_;
};

}  // namespace

Command duel_command() {
  return measuring_command<DuelOptions, DuelRun>(
      {.name = "duel",
       .arguments = "[--base DIR|PROGRAM] [--new DIR|PROGRAM] [FLAGS]",
       .summary = "judge two builds by measuring them in turn",
       .examples = {{"duel --base ../main --new . --strategy ddp --cpus 2", "exit 1 if . is slower than ../main"},
                    {"duel --base-plugin old.so --new-plugin new.so --strategy mine", ""}},
       .exit_codes = {1, 3, 4, 77, 128}},
      add_duel_flags, settle_duel);
}

}  // namespace dpbench
