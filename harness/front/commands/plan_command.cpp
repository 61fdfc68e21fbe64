// dpbench plan: predicts memory and time of all layouts of a gpt on a number of devices, before anything runs.

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/forecast/plan/layout_map.h"
#include "harness/forecast/plan/layout_plan.h"
#include "harness/forecast/plan/words.h"
#include "harness/front/cli/flags.h"
#include "harness/front/cli/quantities.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/run/table.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/record/find_run.h"
#include "harness/report/text/shell.h"
#include "harness/report/validate/validate.h"
#include "workloads/base/error.h"

namespace dpbench {

enum class PlanForm { table, markdown, json, svg };
template <>
inline constexpr auto enum_names<PlanForm> = std::to_array<std::string_view>({"table", "markdown", "json", "svg"});

namespace {

constexpr int most_devices = 65536, usual_host = 8, usual_rows = 4;

constexpr char what_is_missing[] =
    "Predicted, not measured. Leaves out stragglers, other traffic, switches, fragmentation of the allocator and the "
    "memory of LibTorch itself.\n";

std::vector<std::string> planned_strategies() {
  std::vector<std::string> names;
  for (const auto& strategy : forecast::planned::all) names.emplace_back(strategy.name);
  return names;
}

struct PlanOptions {
  StoredRuns stored;
  std::string model = "small", rate, memory, link;
  std::vector<std::string> meshes, strategies;
  int gpus = 0, cpus = 0, hosts = 0, threads = 0;  // values of --gpus, --cpus, --hosts and --threads; 0: flag not given
  int64_t batch = 0;
  Dtype dtype = Dtype::f32;
  PlanForm output = PlanForm::table;
};

void add_flags(CLI::App& app, PlanOptions& o) {
  add_runs(app, o.stored, "a run with cases of gpt on one device, for its speed [latest]");
  const auto model = in_group("Model");
  model(app.add_option("--model", o.model, "shape of gpt ['dpbench list gpt'; small]"), "NAME,KEY=V,..");
  model(
      app.add_option("--batch", o.batch, "samples of a step, on all devices [4 a device]")->check(between(1, 1 << 30)),
      "N");
  add_named<Dtype>(app, "--dtype", o.dtype, "precision; bf16 is autocast over float32 [f32]")->group("Model");
  const auto only = in_group("Layouts");
  only(app.add_option("--mesh", o.meshes, "only this mesh, as in dp=8,tp=8; -o json lists all of it; repeatable")
           ->check(a_mesh())
           ->allow_extra_args(false),
       "AXIS=N,..");
  only(add_values(app, "--strategy", o.strategies, "only these strategies")->check(each(one_of(planned_strategies()))),
       "NAME,..");
  const auto machine = in_group("Devices");
  machine(app.add_option("--gpus", o.gpus, "number of GPUs")->check(between(1, most_devices)), "N");
  machine(app.add_option("--cpus", o.cpus, "number of CPU devices, which share the cores of the run")
              ->check(between(1, most_devices))
              ->excludes("--gpus"),
          "N");
  machine(
      app.add_option("--memory", o.memory, "memory of a device, as in 80GB or 24GiB [no limit]")->check(not_empty()),
      "SIZE");
  machine(app.add_option("--rate", o.rate, "speed that a device reaches, not its peak, instead of a run: 400TF")
              ->check(not_empty()),
          "RATE");
  machine(app.add_option("--link", o.link, "intra=450GB/s:2us,inter=50GB/s:10us, per device")->check(not_empty()),
          "NAME=RATE:LATENCY,..");
  machine(
      app.add_option("--hosts", o.hosts, "devices per host [8 if --link has inter]")->check(between(1, most_devices)),
      "N");
  machine(app.add_option("--threads", o.threads, "threads of each CPU device [1]")->check(between(1, 1024)), "N");
  add_named<PlanForm>(app, "-o,--output", o.output, "format on stdout [table]");
}

Network network_of(const PlanOptions& options, int devices) {
  // A single device runs no collectives, so any link speed will do.
  if (options.link.empty() && devices == 1) return {{1, 0}, {1, 0}, 0};
  if (options.link.empty())
    throw UsageError("plan needs --link, the links between " + std::to_string(devices) +
                     " devices, for example --link intra=450GB/s:2us,inter=50GB/s:10us");
  const Network network = parse_network(options.link, options.hosts, usual_host);
  if (!network.fills_hosts(devices))
    throw UsageError(std::to_string(devices) + " devices are no whole number of hosts with " +
                     std::to_string(network.host_size) + " devices each. Use another --hosts");
  return network;
}

// Returns the path of the run that gives the speed of a device.
std::filesystem::path speed_run(const StoredRuns& stored) try {
  return find_run(stored.runs.empty() ? "latest" : stored.runs.front(), stored.results);
} catch (const UsageError& error) {
  throw UsageError(std::string(error.what()) +
                   ". Without a run, give the speed of a device: " + forecast::rate_example);
}

forecast::Machine machine_of(const PlanOptions& options, bool gpus, int devices) {
  if (gpus && options.threads > 0) throw UsageError("--threads is for --cpus");
  forecast::Machine machine{.network = network_of(options, devices), .threads = std::max(1, options.threads)};
  if (!options.rate.empty()) {
    if (!options.stored.runs.empty())
      throw UsageError("--rate " + one_line(options.rate, 40) + " and the run '" +
                       one_line(options.stored.runs.front(), 80) + "' both give the device's speed. Leave out one");
    const double rate = positive_quantity("--rate", options.rate, {{"GF", 1e9}, {"TF", 1e12}, {"PF", 1e15}}, "rate");
    machine.speed = forecast::constant_speed(rate, "--rate " + options.rate + ", as given");
  } else {
    const Report report = read_consistent_report(speed_run(options.stored));
    machine.speed = forecast::speed_of(report, gpus ? Device::cuda : Device::cpu, options.dtype, machine.threads);
    const std::optional<double> overlap = gpus ? forecast::measured_overlap(report) : std::nullopt;
    if (!gpus) machine.cores = cores_of(report);
    machine.overlap = overlap.value_or(overlap_of(devices, machine.threads, machine.cores));
    machine.overlap_measured = overlap.has_value();
  }
  return machine;
}

forecast::PlanRequest request_of(const PlanOptions& options) {
  if (options.stored.runs.size() > 1) throw UsageError("plan takes one run");
  if (options.gpus == 0 && options.cpus == 0)
    throw UsageError("plan needs a number of devices, for example: " +
                     shell_command("plan --model llama-1b --gpus 64 --memory 80GB --dtype bf16 --rate 400TF "
                                   "--link intra=450GB/s:2us,inter=50GB/s:10us"));
  const bool gpus = options.gpus > 0;
  const int devices = gpus ? options.gpus : options.cpus;
  forecast::PlanRequest request{.model = options.model,
                                .shape = gpt::parse_shape(options.model),
                                .dtype = options.dtype,
                                .gpus = gpus,
                                .devices = devices,
                                .batch = options.batch > 0 ? options.batch : int64_t{usual_rows} * devices,
                                .memory_bytes = parse_memory(options.memory)};
  if (request.shape.experts > 0)
    throw UsageError("--model " + one_line(options.model, 80) + ": plan has no formulas for experts yet");
  for (const std::string& mesh : options.meshes) {
    request.meshes.push_back(parse_mesh(mesh));
    if (ranks_of(request.meshes.back()) != devices)
      throw UsageError("--mesh " + mesh + " has " + std::to_string(ranks_of(request.meshes.back())) + " ranks, not " +
                       std::to_string(devices));
  }
  request.strategies = options.strategies;
  request.machine = machine_of(options, gpus, devices);
  return request;
}

// Folds lines for a terminal. Lines of Markdown stay whole, because a Markdown viewer wraps them.
std::string prose(const std::string& lines, bool markdown) { return markdown ? lines : folded(lines); }

std::string with_commands(const forecast::LayoutPlan& plan, bool markdown) {
  std::string text;
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const auto& [prediction, reasons] = plan.best[i];
    const forecast::Layout& layout = prediction.layout;
    text += prose(std::to_string(i + 1) + ". " + text_of(layout) + ": " + join(reasons, "; ") + "\n", markdown);
    const std::string model = " --workload gpt --model " + plan.asked.model + " --dtype " + name_of(plan.asked.dtype);
    std::vector<std::string> commands = {
        shell_command(flags_of(layout, plan.asked.gpus ? 0 : plan.asked.machine.threads) + model)};
    if (!layout.mesh.empty())
      commands.insert(commands.begin(), shell_command("check --workload gpt " + check_flags_of(layout)));
    for (const std::string& command : commands) text += (markdown ? "   `" + command + "`\n" : "   " + command + "\n");
  }
  return text;
}

std::string output_of(const forecast::LayoutPlan& plan, PlanForm form) {
  if (form == PlanForm::json) return json_text(to_json(plan));
  if (form == PlanForm::svg) return map_svg(plan);
  const bool markdown = form == PlanForm::markdown;
  const std::string heading = one_line(plan_heading(plan), 300);
  std::string text = markdown ? "**" + heading + "**\n\n" : folded(heading + "\n");
  if (plan.fitting.empty()) {
    std::string none = "No layout fits.";
    if (!plan.unfitting.empty())
      none += " The smallest, " + text_of(plan.unfitting.front().layout) + ", needs " +
              forecast::gigabytes(plan.unfitting.front().memory.total()) + " GB.";
    text += prose(none + "\n", markdown);
  } else {
    const auto rows = layout_rows(plan);
    text += markdown ? as_markdown(rows) + "\n" : aligned(rows, forecast::layout_columns_right()) + "\n";
    text += with_commands(plan, markdown) + "\n";
  }
  if (!markdown) text += map_text(plan, output_columns(40, 100)) + "\n";
  for (const auto& remark : plan_remarks(plan))
    text += prose((markdown ? "- " : "  ") + one_line(remark, 400) + "\n", markdown);
  return text + (markdown ? "\n" : "") + prose(what_is_missing, markdown);
}

int show_plan(const PlanOptions& options) {
  const forecast::LayoutPlan plan = plan_layouts(request_of(options));
  if (plan.examined == 0 && (!options.meshes.empty() || !options.strategies.empty()))
    throw UsageError(
        "no layout that plan knows has these --mesh and --strategy; the axes are dp, shard, cp, pp and tp");
  if (plan.examined == 0)
    throw UsageError("no layout of this model has " + std::to_string(plan.asked.devices) + " devices and " +
                     std::to_string(plan.asked.batch) +
                     " samples: the ranks of dp and shard must divide --batch, those of " +
                     "tp the heads, and there are at most as many stages as layers");
  const bool saved = print(output_of(plan, options.output));
  return exit_code({.unsaved = !saved, .inconclusive = plan.fitting.empty()});
}

}  // namespace

Command plan_command() {
  return reading_command(
      {.name = "plan",
       .arguments = "[RUN] --model NAME --gpus N [FLAGS]",
       .summary = "predict which layouts of a gpt fit, and which is fastest, before anything runs",
       .examples = {{"plan results/h100/gpt2-124m.json --model llama-1b --gpus 64 --memory 80GB --dtype bf16 "
                     "--link intra=450GB/s:2us,inter=50GB/s:10us",
                     ""},
                    {"plan --model llama-1b --gpus 64 --rate 400TF --link intra=450GB/s:2us,inter=50GB/s:10us", ""},
                    {"plan latest --model gpt2-124m --gpus 8 --link intra=450GB/s:2us", "its speed from a run"},
                    {"plan latest --cpus 4 --link intra=4GB/s:20us -o svg > plan.svg", "the map"}},
       .exit_codes = {4}},
      add_flags, show_plan);
}

}  // namespace dpbench
