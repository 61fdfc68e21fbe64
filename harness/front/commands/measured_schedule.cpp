#include "harness/front/commands/measured_schedule.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "harness/front/cli/flags.h"
#include "harness/front/commands/schedule_report.h"
#include "harness/front/run/table.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/text.h"
#include "harness/report/export/trace.h"
#include "harness/report/record/find_run.h"
#include "harness/report/text/shell.h"
#include "strategies/schedule/draw.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

namespace fs = std::filesystem;
using pipeline::BubbleOf;
using pipeline::Kind;

constexpr char trace_end[] = ".trace.json";
constexpr char how_to_trace[] = "run --strategy pp --cpus 2 --workload gpt --accumulate 8 --trace";

std::string in_ms(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", ms);
  return text;
}

bool is_trace(const fs::path& file) { return file.string().ends_with(trace_end); }

// trace_or_report: a trace, or the report of a run with traces.
std::vector<fs::path> traces_of(const fs::path& trace_or_report) {
  if (is_trace(trace_or_report)) return {trace_or_report};
  std::vector<fs::path> traces;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(trace_or_report.parent_path() / "traces", none))
    if (is_trace(entry.path())) traces.push_back(entry.path());
  std::ranges::sort(traces);
  return traces;
}

// Returns the median step time of each case of a run, in ms, by the name of the case's trace; empty for a trace.
std::map<std::string, double> untraced_times(const fs::path& trace_or_report) {
  std::map<std::string, double> times;
  if (is_trace(trace_or_report)) return times;
  for (const CaseRecord& record : read_report(trace_or_report).cases)
    if (record.step_time_ns) times[trace_stem(record.spec.id) + trace_end] = record.step_time_ns->median * 1e-6;
  return times;
}

// Returns a table of the measured median times of computations, a row for each stage, and a line with the median times
// of transfers.
std::string stage_times_text(const MeasuredPipeline& measured) {
  std::set<Kind> kinds;
  for (const auto& [of, time] : measured.costs.stage_times) kinds.insert(of.second);
  std::vector<Cells> rows = {{"STAGE", "RANK"}};
  for (const Kind kind : kinds) rows[0].push_back(name_of(kind));
  for (int stage = 0; stage < measured.schedule.stages(); ++stage) {
    rows.push_back({std::to_string(stage), std::to_string(measured.schedule.rank_of[static_cast<size_t>(stage)])});
    for (const Kind kind : kinds) {
      const auto time = measured.costs.stage_times.find({stage, kind});
      rows.back().push_back(time == measured.costs.stage_times.end() ? "-" : in_ms(time->second));
    }
  }
  std::vector<std::string> links;
  for (const auto& [ends, link] : measured.costs.links)
    links.push_back("rank " + std::to_string(ends.first) + " to " + std::to_string(ends.second) + " " +
                    in_ms(link.latency));
  return aligned(rows, std::vector<bool>(rows[0].size(), true)) +
         folded("transfers: " + (links.empty() ? "no rank waited for one; simulated as free" : join(links)) + "\n");
}

std::string pictures(const MeasuredPipeline& measured, bool colour, size_t width) {
  const pipeline::TextStyle style{
      .colour = colour, .width = width, .span = std::max(measured.planned.makespan, measured.ran.makespan)};
  return "planned, simulated with these times:\n" + pipeline::draw_text(measured.schedule, measured.planned, style) +
         "as it ran, in the step of median length:\n" + pipeline::draw_text(measured.schedule, measured.ran, style) +
         folded(pipeline::letters_of(measured.schedule) + "; time runs to the right; a narrow box shows its letter, " +
                "in lower case for every second stage of a rank\n");
}

// Bubble and step time by the closed formula of the built-in schedule; unset where the formula does not apply to the
// schedule.
struct ByFormula {
  std::optional<double> bubble = {}, step = {};
  std::string text = "no formula: this is not a built-in schedule";
};

ByFormula by_formula(const MeasuredPipeline& measured) {
  if (!measured.family) return {};
  const pipeline::Family& family = *measured.family;
  const pipeline::Costs& costs = measured.costs;
  const int chunks = measured.schedule.stages() / measured.schedule.world();
  ByFormula result{.bubble = family.bubble({measured.schedule.world(), chunks, measured.schedule.microbatches}, costs)};
  const bool span = family.bubble_of == BubbleOf::span;
  result.text = std::string("formula: ") + (span ? "span bubble " : "bubble ") + family.bubble_text +
                ", with the stages' mean times";
  if (!result.bubble) result.text += "; exact only if " + family.exact_text;
  if (result.bubble && !span)
    result.step = *result.bubble + measured.schedule.microbatches * chunks *
                                       (costs.forward + costs.input_gradient + costs.weight_gradient);
  return result;
}

std::string bubble_rows(const ShownPipeline& shown, const ByFormula& formula) {
  const pipeline::Simulation &planned = shown.measured.planned, &ran = shown.measured.ran;
  std::vector<Cells> rows = {{"RANK", "BUSY", "FORMULA", "SIMULATED", "%", "CLOCK", "%"}};
  for (int place = 0; place < shown.measured.schedule.world(); ++place) {
    const double idle = planned.step_bubble(place), ran_idle = ran.step_bubble(place);
    rows.push_back({std::to_string(shown.ranks[static_cast<size_t>(place)]),
                    in_ms(ran.ranks[static_cast<size_t>(place)].busy), formula.bubble ? in_ms(*formula.bubble) : "-",
                    in_ms(idle), percent_of(idle, planned.makespan), in_ms(ran_idle),
                    percent_of(ran_idle, ran.makespan)});
  }
  return "bubbles:\n" + aligned(rows, std::vector<bool>(rows[0].size(), true));
}

std::string step_line(const MeasuredPipeline& measured, const ByFormula& formula) {
  const double planned = measured.planned.makespan, ran = measured.ran.makespan;
  const bool longer = ran >= planned;
  return "traced step: " + (formula.step ? in_ms(*formula.step) + " by formula, " : "") + in_ms(planned) +
         " simulated, " + in_ms(ran) + " by the clock: " + percent_of(longer ? ran - planned : planned - ran, planned) +
         (longer ? " longer" : " shorter") + " than simulated\n";
}

}  // namespace

std::vector<ShownPipeline> read_pipelines(const std::string& trace_or_run) {
  std::vector<ShownPipeline> all;
  const fs::path found = find_run(trace_or_run, StoredRuns().results);
  const std::map<std::string, double> untraced = untraced_times(found);
  for (const fs::path& path : traces_of(found)) {
    const Json document = read_document(path);
    name_file_in_errors(path, [&] {
      for (TracedPipeline& one : traced_pipelines(document, "the trace")) {
        MeasuredPipeline measured = measure_pipeline(one.steps, "the trace");
        all.push_back({path.filename().string(), std::move(one.ranks), std::move(measured)});
        if (const auto time = untraced.find(all.back().trace); time != untraced.end())
          all.back().untraced_ms = time->second;
      }
    });
  }
  if (all.empty())
    throw UsageError("--measured " + one_line(trace_or_run, 200) + ": there is no trace of a pipeline on CPUs. " +
                     "Record one: " + shell_command(how_to_trace));
  return all;
}

std::string measured_svg(const ShownPipeline& shown) {
  const MeasuredPipeline& measured = shown.measured;
  return pipeline::draw_svg(measured.schedule, measured.planned,
                            sizes_text(measured.schedule) + "; planned, and as it ran, in ms", &measured.ran);
}

std::string measured_text(const ShownPipeline& shown, bool colour, size_t width) {
  const MeasuredPipeline& measured = shown.measured;
  const ByFormula formula = by_formula(measured);
  return folded(one_line(shown.trace, 200) + "\n" + sizes_text(measured.schedule) + "; medians of " +
                std::to_string(measured.steps) + " traced steps, in ms\n\n") +
         stage_times_text(measured) + "\n" + pictures(measured, colour, width) + "\n" + bubble_rows(shown, formula) +
         folded(formula.text + "\n" + step_line(measured, formula) +
                (shown.untraced_ms ? "step without the profiler, with the optimizer: " + in_ms(*shown.untraced_ms) +
                                         ", the run's median\n"
                                   : ""));
}

}  // namespace dpbench
