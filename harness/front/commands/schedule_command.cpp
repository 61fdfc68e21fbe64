// dpbench schedule: proves a pipeline schedule correct without running it, simulates it and draws it.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/commands/measured_schedule.h"
#include "harness/front/commands/schedule_report.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/plan/catalogue.h"
#include "harness/front/run/table.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/text/shell.h"
#include "strategies/schedule/csv.h"
#include "workloads/base/error.h"
#include "workloads/base/number.h"

namespace dpbench {

enum class ScheduleForm { table, json, csv, svg };
template <>
inline constexpr auto enum_names<ScheduleForm> = std::to_array<std::string_view>({"table", "json", "csv", "svg"});

namespace {

constexpr int most_ranks = 256, most_chunks = 64, most_microbatches = 4096;
// Limit on the product of the numbers of stages and of micro-batches. Examining a schedule of this size takes 10 s.
constexpr int most_work = 1 << 17;

struct ScheduleOptions {
  std::vector<std::string> schedules;
  int stages = 0, chunks = 0, microbatches = 0;  // values of --stages, --chunks and --microbatches; 0: flag not given
  std::string costs, measured;
  std::vector<std::string> ties;
  int live = 0, slots = 0;
  bool transfers = false, list = false;
  int width = 0;
  Color color = Color::automatic;
  ScheduleForm output = ScheduleForm::table;
};

void add_flags(CLI::App& app, ScheduleOptions& o) {
  app.add_option("schedules", o.schedules, "a schedule of --list, or a CSV file; several are compared")
      ->type_name("SCHEDULE");
  const auto grouped = in_group("Schedule");
  grouped(app.add_option("--stages", o.stages, "ranks of the pipeline [4; a file: its lines]")
              ->check(between(1, most_ranks)),
          "P");
  grouped(app.add_option("--chunks", o.chunks, "stages on each rank [as few as the schedule allows; a file: its own]")
              ->check(between(1, most_chunks)),
          "V");
  grouped(app.add_option("--microbatches", o.microbatches, "micro-batches of a step [8; a file: its own]")
              ->check(between(1, most_microbatches)),
          "M");
  grouped(app.add_option("--tie", o.ties, "stages that share parameters, as a tied embedding does; repeatable"),
          "STAGE,..");
  grouped(app.add_option("--live", o.live, "live activations that a rank may keep [the schedule's own]")
              ->check(between(1, most_work)),
          "N");
  grouped(app.add_option("--slots", o.slots, "receive buffers of each channel [as many as needed]")
              ->check(between(1, most_work)),
          "N");
  app.add_flag("--list", o.list, "list schedules, their formulas, and the verifier's rules")->group("Schedule");
  const auto simulated = in_group("Simulation");
  simulated(app.add_option("--costs", o.costs, "times of 1/P of the model, and of transfers [f=1,b=1,w=1,send=0]"),
            "KEY=X,..");
  simulated(app.add_option("--measured", o.measured, "the schedule as it ran: a trace file, or a run with --trace")
                ->excludes("--stages", "--chunks", "--microbatches", "--tie", "--live", "--slots", "--list", "--costs"),
            "TRACE|RUN");
  add_named<Color>(app, "--color", o.color, "colors in the picture; obeys NO_COLOR, FORCE_COLOR [auto]")
      ->group("Output");
  app.add_option("--width", o.width, "columns of the picture [the terminal's; else 120]")
      ->check(between(40, 100000))
      ->group("Output")
      ->type_name("N");
  app.add_flag("--transfers", o.transfers, "-o csv: also sends, receives and reductions")->group("Output");
  add_named<ScheduleForm>(app, "-o,--output", o.output, "format on stdout [table]")->group("Output");
}

struct CostKey {
  std::string name;
  double least;  // lowest allowed value
  double& (*value)(pipeline::Costs&);
};

const std::vector<CostKey>& cost_keys() {
  static const std::vector<CostKey> all = {
      {"f", 1e-9, [](pipeline::Costs& costs) -> double& { return costs.forward; }},
      {"b", 1e-9, [](pipeline::Costs& costs) -> double& { return costs.input_gradient; }},
      {"w", 1e-9, [](pipeline::Costs& costs) -> double& { return costs.weight_gradient; }},
      {"fb", 1e-9, [](pipeline::Costs& costs) -> double& { return costs.overlapped; }},
      {"send", 0, [](pipeline::Costs& costs) -> double& { return costs.link.latency; }},
      {"bytes", 0, [](pipeline::Costs& costs) -> double& { return costs.bytes; }},
      {"rate", 1e-9, [](pipeline::Costs& costs) -> double& { return costs.link.bytes_per_time; }}};
  return all;
}

double cost_value(const CostKey& key, const std::string& text, const std::string& refused) {
  constexpr double most = 1e15;
  const auto value = parse_number<double>(text);
  if (!value || !(*value >= key.least && *value <= most))
    throw UsageError(refused + key.name + " needs a number " + (key.least > 0 ? "above 0" : "of 0 or more") +
                     ", not '" + one_line(text, 40) + "'");
  return *value;
}

pipeline::Costs parse_costs(const std::string& text) {
  pipeline::Costs costs;
  if (text.empty()) return costs;
  const std::string refused = "--costs '" + one_line(text, 100) + "': ";
  std::vector<std::string> seen;
  for (const auto& part : comma_values(text)) {
    const size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const CostKey* key = find_entry(cost_keys(), name);
    if (!key || equals == std::string::npos)
      throw UsageError(refused + "'" + one_line(part, 40) + "' is not KEY=NUMBER with a key of " +
                       join(names_of(cost_keys())));
    if (std::ranges::count(seen, name)) throw UsageError(refused + name + " is given twice");
    seen.push_back(name);
    key->value(costs) = cost_value(*key, part.substr(equals + 1), refused);
  }
  if ((costs.bytes > 0) != (costs.link.bytes_per_time > 0))
    throw UsageError(refused + "bytes and rate need each other: a transfer takes send + bytes / rate");
  return costs;
}

std::vector<int> parse_tie(const std::string& text, const pipeline::Schedule& schedule) {
  std::vector<int> stages;
  for (const auto& word : comma_values(text)) {
    const int stage = parse_number<int>(word).value_or(-1);
    if (stage < 0 || stage >= schedule.stages())
      throw UsageError("--tie '" + one_line(text, 60) + "': '" + one_line(word, 40) + "' is no stage from 0 to " +
                       std::to_string(schedule.stages() - 1));
    stages.push_back(stage);
  }
  std::ranges::sort(stages);
  if (stages.size() < 2 || std::ranges::adjacent_find(stages) != stages.end())
    throw UsageError("--tie '" + one_line(text, 60) + "' needs two different stages or more, for example 0," +
                     std::to_string(schedule.stages_per_pipeline() - 1));
  return stages;
}

// Adds the user's ties (groups of stages that share parameters). Groups with a stage in common are merged, because the
// parameter gradients of all stages of a group are summed together.
void add_ties(pipeline::Schedule& schedule, const std::vector<std::string>& ties) {
  for (const auto& text : ties) {
    std::vector<int> merged = parse_tie(text, schedule);
    std::erase_if(schedule.ties, [&](const std::vector<int>& group) {
      const bool shared = std::ranges::any_of(group, [&](int stage) { return std::ranges::count(merged, stage) > 0; });
      if (shared) merged.insert(merged.end(), group.begin(), group.end());
      return shared;
    });
    std::ranges::sort(merged);
    merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
    schedule.ties.push_back(merged);
  }
}

void refuse_too_much_work(int64_t stages, int64_t microbatches) {
  if (stages * microbatches > most_work)
    throw UsageError(std::to_string(stages) + " stages with " + std::to_string(microbatches) +
                     " micro-batches are more than " + std::to_string(most_work) + " computations of a kind");
}

// Reads a schedule from the user's file. Throws UsageError if --stages is given and differs from the file's number of
// ranks. --microbatches and --chunks, if given, replace the numbers of micro-batches and of stages per rank that follow
// from the file. If the file lacks actions for these numbers, the verifier reports the missing actions as faults.
pipeline::Schedule read_schedule(const std::string& path, const ScheduleOptions& options) {
  if (std::error_code failed; !std::filesystem::exists(path, failed)) {
    std::vector<std::string> known = names_of(pipeline::families());
    throw UsageError("'" + one_line(path, 200) + "' is neither a schedule" + did_you_mean(path, known) +
                     " nor a file; schedules: " + join(known) + "; see " + shell_command("schedule --list"));
  }
  pipeline::Schedule schedule = pipeline::read_csv_file(path, one_line(path, 200));
  if (options.stages != 0 && options.stages != schedule.world())
    throw UsageError(schedule.name + " has " + std::to_string(schedule.world()) + " lines, one for each rank, but " +
                     "--stages is " + std::to_string(options.stages));
  if (options.microbatches != 0) schedule.microbatches = options.microbatches;
  if (options.chunks != 0) {
    const size_t known = schedule.rank_of.size();
    const std::vector<int> looped = pipeline::looped_placement(schedule.world(), options.chunks);
    schedule.rank_of.resize(looped.size());
    for (size_t stage = known; stage < looped.size(); ++stage) schedule.rank_of[stage] = looped[stage];
  }
  refuse_too_much_work(schedule.stages(), schedule.microbatches);
  return schedule;
}

pipeline::Schedule make_named(const pipeline::Family& family, const ScheduleOptions& options) {
  pipeline::Request request{.chunks = family.least_chunks};
  if (options.stages != 0) request.ranks = options.stages;
  if (options.microbatches != 0) request.microbatches = options.microbatches;
  // When several schedules are compared, --chunks applies only to schedules with a variable number of stages per rank.
  if (options.chunks != 0 && (options.schedules.size() == 1 || family.most_chunks > family.least_chunks))
    request.chunks = options.chunks;
  refuse_too_much_work(int64_t{request.ranks} * request.chunks, request.microbatches);
  return pipeline::make_schedule(family, request);
}

ExaminedSchedule examined(const std::string& name, const ScheduleOptions& options, const pipeline::Costs& costs) {
  const pipeline::Family* family = pipeline::find_family(name);
  pipeline::Schedule schedule = family ? make_named(*family, options) : read_schedule(name, options);
  add_ties(schedule, options.ties);
  Declared declared;
  if (options.live != 0) declared.live = options.live;
  if (options.slots != 0) declared.slots = options.slots;
  return examine(std::move(schedule), family, costs, declared);
}

size_t picture_width(int asked) { return asked > 0 ? static_cast<size_t>(asked) : output_columns(40, 120); }

std::string output_of(const std::vector<ExaminedSchedule>& all, const ScheduleOptions& options) {
  if (options.output == ScheduleForm::json) {
    if (all.size() == 1) return json_text(schedule_json(all[0]));
    Json list = Json::array();
    for (const ExaminedSchedule& one : all) list.push_back(schedule_json(one));
    return json_text(list);
  }
  if (options.output == ScheduleForm::table)
    return all.size() == 1 ? schedule_text(all[0], coloured(options.color, STDOUT_FILENO), picture_width(options.width))
                           : schedules_text(all);
  if (!all[0].right()) {  // report faults on stderr: stdout may be a file of the requested format
    std::cerr << "dpbench: " << faults_text(all[0]);
    return "";
  }
  if (options.output == ScheduleForm::svg) return schedule_svg(all[0]);
  return pipeline::write_csv(options.transfers ? all[0].schedule : pipeline::without_transfers(all[0].schedule));
}

int show_measured(const ScheduleOptions& options) {
  if (!options.schedules.empty())
    throw UsageError("--measured reads the schedule from the trace; leave out '" + one_line(options.schedules[0], 60) +
                     "'");
  if (options.output == ScheduleForm::json || options.output == ScheduleForm::csv)
    throw UsageError("--measured is for -o table and -o svg, not -o " + name_of(options.output));
  const std::vector<ShownPipeline> all = read_pipelines(options.measured);
  if (options.output == ScheduleForm::svg && all.size() > 1)
    throw UsageError("-o svg takes one pipeline, and --measured " + one_line(options.measured, 200) + " has " +
                     std::to_string(all.size()));
  if (options.output == ScheduleForm::svg) return exit_code({.unsaved = !print(measured_svg(all[0]))});
  std::string text;
  for (const ShownPipeline& one : all)
    text += (text.empty() ? "" : "\n") +
            measured_text(one, coloured(options.color, STDOUT_FILENO), picture_width(options.width));
  return exit_code({.unsaved = !print(text)});
}

int show_schedule(const ScheduleOptions& options) {
  if (options.transfers && options.output != ScheduleForm::csv)
    throw UsageError("--transfers is for -o csv; -o json always has the transfers");
  if (!options.measured.empty()) return show_measured(options);
  if (options.list && !options.schedules.empty())
    throw UsageError("--list shows all schedules; leave out '" + one_line(options.schedules[0], 60) + "'");
  if (options.list) return exit_code({.unsaved = !print(families_text())});
  if (options.schedules.empty())
    throw UsageError("schedule needs a schedule or a CSV file, for example: " + shell_command("schedule 1f1b") +
                     "; schedules: " + join(names_of(pipeline::families())));
  const bool one_only = options.output == ScheduleForm::csv || options.output == ScheduleForm::svg;
  if (one_only && options.schedules.size() > 1)
    throw UsageError("-o " + name_of(options.output) + " takes one schedule, not " +
                     std::to_string(options.schedules.size()));
  const pipeline::Costs costs = parse_costs(options.costs);
  std::vector<ExaminedSchedule> all;
  for (const auto& name : options.schedules) all.push_back(examined(name, options, costs));
  const bool broken = !std::ranges::all_of(all, &ExaminedSchedule::right);
  const std::string text = output_of(all, options);
  return exit_code({.unsaved = !print(text), .wrong = broken});
}

}  // namespace

Command schedule_command() {
  return reading_command(
      {.name = "schedule",
       .arguments = "SCHEDULE.. [FLAGS]",
       .summary = "prove, simulate and draw pipeline schedules, without running them",
       .examples = {{"schedule 1f1b --stages 4 --microbatches 8", "the picture, bubbles, live activations"},
                    {"schedule gpipe 1f1b interleaved zb-h1 zbv --chunks 2", "a comparison"},
                    {"schedule mine.csv --costs f=4,b=5,w=3,send=0.5", "a schedule of your own: right, how fast?"},
                    {"schedule zb-h1 -o svg > zb-h1.svg", ""},
                    {"schedule --measured latest", "the last run with --trace: as planned, as it ran"}},
       .exit_codes = {1}},
      add_flags, show_schedule);
}

}  // namespace dpbench
