// dpbench tune: finds the fastest parameter values of a strategy, or the largest batch that fits.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/front/cli/measuring_flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/run/find_batch.h"
#include "harness/front/run/table.h"
#include "harness/front/run/timed_run.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/text.h"
#include "harness/report/judge/tuning.h"
#include "harness/report/record/codec.h"
#include "harness/report/text/shell.h"
#include "workloads/base/error.h"
#include "workloads/base/number.h"

namespace dpbench {
namespace {

// Key in a report's config under which tune stores the results of the last remaining candidates.
constexpr auto results = "tuned";

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

// Returns the values that `tune` tries for a parameter: all words of a choice; for a number, values from a quarter of
// its default to four times.
std::vector<std::string> usual_values(const StrategyEntry& strategy, const ParamEntry& param) {
  if (!param.choices.empty()) return param.choices;
  const double fallback = parse_number<double>(param.fallback).value_or(0);
  if (!(fallback > 0))
    throw UsageError("--over " + param.name + ": no usual values around its default, '" + param.fallback +
                     "'; give them with --param " + strategy.name + "." + param.name + "=V,..");
  std::vector<std::string> values;
  for (const double factor : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    const double scaled = factor * fallback;
    const std::string value = short_text(param.kind == ParamKind::integer ? std::max(1.0, std::round(scaled)) : scaled);
    if (std::ranges::find(values, value) == values.end()) values.push_back(value);
  }
  return values;
}

std::string axis_text(const StrategyEntry& strategy, const std::string& given) {
  const std::string prefix = strategy.name + ".";
  const std::string name = given.starts_with(prefix) ? given.substr(prefix.size()) : given;
  const ParamEntry* param = find_entry(strategy.params, name);
  if (param) return prefix + name + "=" + join(usual_values(strategy, *param), ",");
  std::vector<std::string> known;
  for (const ParamEntry& one : strategy.params) known.push_back(one.name);
  throw UsageError("--over " + one_line(given, 80) + ": " + strategy.name + " has no such parameter" +
                   did_you_mean(name, known) + (known.empty() ? "" : "; known: " + join(known)));
}

// Returns the batch sizes that `tune` tries, that of the reference case first: `given` or, if it has only one size,
// this size with its quarter, half, double and quadruple.
std::vector<int64_t> batches_to_try(const std::vector<int64_t>& given) {
  if (given.size() > 1) return given;
  const int64_t middle = given.front();
  std::vector<int64_t> batches = {middle};
  for (const int64_t batch : {middle / 4, middle / 2, 2 * middle, 4 * middle})
    if (batch > 0 && std::ranges::find(batches, batch) == batches.end()) batches.push_back(batch);
  return batches;
}

class TuneRun : public TimedRun {
 public:
  TuneRun(const TuneOptions& options, World* world) : TimedRun(options, world), tune_options_(options) {}

  void plan() override {
    Selection& what = prepared_.options.what;
    const StrategyEntry* strategy = find_entry(prepared_.catalogue.strategies, what.strategies.front());
    for (const std::string& name : tune_options_.over) {
      if (name == "batch")
        add_batches(what);
      else if (strategy)
        what.params.push_back(axis_text(*strategy, name));
    }
    TimedRun::plan();
    skip_cases_without_default();
    if (std::ranges::all_of(prepared_.plan.cases, [&](const CaseSpec& spec) { return is_default(spec); }))
      throw UsageError("tune: nothing to choose from, every case has the default values" +
                       (prepared_.plan.skipped.empty() ? "" : "; skipped: " + prepared_.plan.skipped.front().reason));
  }

 private:
  void add_batches(Selection& what) const {
    const WorkloadEntry* workload =
        what.workloads.size() == 1 ? find_entry(prepared_.catalogue.workloads, what.workloads.front()) : nullptr;
    if (what.batches.empty() && !workload)
      throw UsageError(
          "--over batch: workloads have different default batches. Name one --workload, or give --batch N");
    what.batches = batches_to_try(what.batches.empty() ? std::vector<int64_t>{workload->batch} : what.batches);
    what.reference.batch = what.batches.front();
  }

  const Reference& reference() const { return prepared_.options.what.reference; }

  // True for a case with default parameter values and the reference batch. All other cases with the same workload,
  // world and so on are compared with this case.
  bool is_default(const CaseSpec& spec) const {
    return spec.params.empty() && spec.batch == reference().batch.value_or(spec.batch);
  }

  // If a setting's case with default parameter values cannot run, skips the setting's other cases too: they would have
  // nothing to be compared with. A setting is, for example, a workload and a world.
  void skip_cases_without_default() {
    Plan& plan = prepared_.plan;
    std::vector<CaseSpec> kept;
    std::vector<SkippedCase> skipped;
    for (const CaseSpec& spec : plan.cases) {
      const auto is_default_of = [&](const CaseSpec& one) { return is_reference_of(one, spec, reference()); };
      if (std::ranges::any_of(plan.cases, is_default_of)) {
        kept.push_back(spec);
        continue;
      }
      const auto absent = std::ranges::find_if(plan.skipped, is_default_of, &SkippedCase::spec);
      skipped.push_back({spec, "nothing to compare it with, because the case of the default values is skipped" +
                                   (absent == plan.skipped.end() ? "" : ": " + absent->reason)});
    }
    if (kept.empty() && !skipped.empty())
      throw UsageError("tune: '" + skipped.front().spec.id + "': " + skipped.front().reason);
    plan.cases = std::move(kept);
    std::ranges::move(skipped, std::back_inserter(plan.skipped));
  }

  Start begin() override {
    Start start = TimedRun::begin();
    size_t work = 0, settings = 0;
    for (const CaseSpec& spec : prepared_.plan.cases) settings += is_default(spec);
    for (size_t left = prepared_.plan.cases.size() - settings; left > settings; left = (left + 1) / 2)
      work += left + settings;
    start.cases = work + 2 * settings * static_cast<size_t>(options_.launches);
    start.launches = 1;
    return start;
  }

  LoopEnding measure_with(CaseRunner& runner, LaunchLoop::MakeCommand make_command) override {
    const LoopEnding ended = TimedRun::measure_with(runner, std::move(make_command));
    // When batches are tuned, a batch that does not fit in memory is a result, so its case counts as skipped.
    for (CaseRecord& record : report_.cases)
      if (reference().batch && !is_default(record.spec) && record.status == CaseStatus::failed && record.out_of_memory)
        record.status = CaseStatus::skipped;
    return ended;
  }

  LoopEnding run_cases() override {
    const LoopEnding ended = TimedRun::run_cases();
    if (judged_from_ < 0) return ended;
    tuned_ = tuned(report_, judged_from_);
    report_.config[results] = write_value(tuned_);
    return ended;
  }

  // After each launch, keeps the faster half of the candidates (cases with values other than the defaults), until each
  // setting (such as a workload and world) has one left. Then measures the remaining candidates in --launches further
  // launches.
  LaunchLoop::Choose choose() override {
    return [this](int launch, const std::vector<size_t>& unfinished) -> std::vector<size_t> {
      if (launch == 0) left_ = unfinished;
      std::erase_if(left_, [&](size_t i) { return std::ranges::find(unfinished, i) == unfinished.end(); });
      if (judged_from_ < 0 && launch > 0) left_ = faster_half(report_, left_);
      if (judged_from_ < 0 && launch > 0 && one_is_left(report_, left_)) {
        judged_from_ = launch;
        report_.config[first_judged] = launch;
      }
      if (judged_from_ >= 0 && launch >= judged_from_ + options_.launches) return {};
      return left_;
    };
  }

  std::string output() const override {
    if (options_.output == Form::json) return json_text(to_json(report_));
    if (options_.output == Form::none) return "";
    TableView view{.sort = "speedup:desc"};
    if (reference().batch) {
      view.columns = {"batch", "world", "step", "interval", "samples", "speedup", "launches", "notes"};
      view.batch_column = true;
    }
    std::string text =
        options_.output == Form::markdown ? report_markdown(report_, view) : report_table(report_, false, view);
    if (tuned_.empty()) return text + "\n" + not_tuned + "\n";
    text += "\n";
    for (const Tuned& one : tuned_)
      text += options_.output == Form::markdown ? tuned_text(one) + "\n" : folded(tuned_text(one) + "\n");
    return text;
  }

  std::vector<std::string> hints() const override {
    return {"Charts: " + shell_command("report " + shell_word(directory_->path().string()) + " --html report.html")};
  }

  const TuneOptions& tune_options_;
  std::vector<size_t> left_;
  std::vector<Tuned> tuned_;
  int judged_from_ = -1;  // first launch that judges the remaining candidates; -1: still halving them
};

}  // namespace

Command tune_command() {
  Command command = measuring_command<TuneOptions, TuneRun>(
      {.name = "tune",
       .arguments = "--strategy NAME --over NAME,..|--find-batch [FLAGS]",
       .summary = "find the fastest parameter values of a strategy, or its largest batch",
       .examples = {{"tune --strategy ddp --over bucket_mb,batch --workload mnist-mlp --cpus 2", ""},
                    {"tune --strategy ddp --param ddp.bucket_mb=1,5,25,100 --gpus 8", "the values to try"},
                    {"tune --strategy fsdp --over batch --workload gpt --gpus 8", "the batch with most samples/s"},
                    {"tune --find-batch --strategy ddp,fsdp --workload gpt --gpus 8", "what fits"}},
       .exit_codes = {1, 3, 4, 77, 128}},
      add_tune_flags, settle_tune);
  command.start = [tune = command.start](const std::any& options, World* world) -> std::unique_ptr<Run> {
    const auto& own = std::any_cast<const TuneOptions&>(options);
    return own.find_batch ? std::make_unique<FindBatchRun>(own, world) : tune(options, world);
  };
  return command;
}

}  // namespace dpbench
