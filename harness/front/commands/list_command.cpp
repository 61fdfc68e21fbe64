// dpbench list: lists the strategies, workloads, backends and checks of this build, the devices of this machine, and
// the parameters of a model.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/front/cli/flags.h"
#include "harness/front/commands/commands.h"
#include "harness/front/launch/exit_code.h"
#include "harness/front/launch/worker_program.h"
#include "harness/front/run/table.h"
#include "harness/front/text/fold.h"
#include "harness/front/text/print.h"
#include "harness/front/text/text.h"
#include "harness/report/machine/gpu_survey.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace fs = std::filesystem;
namespace {

struct ListOptions {
  // Topic, such as strategies, or name of one entry, such as ddp; empty: all topics (the table omits the checks).
  std::string topic;
  Selection what;  // the user's choice of plug-ins, Python interpreter and --model
  bool parameters = false;
  double timeout_s = 300;  // limit on the time that Python files may take
  Form output = Form::table;
};

enum class Topic { strategies, workloads, backends, devices, checks };

}  // namespace

template <>
inline constexpr auto enum_names<Topic> =
    std::to_array<std::string_view>({"strategies", "workloads", "backends", "devices", "checks"});

namespace {

void add_flags(CLI::App& app, ListOptions& o) {
  app.add_option("topic", o.topic, "what to list, or one name such as ddp [all]")
      ->type_name(join(names_list<Topic>(), "|"));
  app.add_flag("--parameters", o.parameters, "list the parameters of the workload's model: shape, blocks, cuts");
  app.add_option("--model", o.what.model, "with --parameters: shape of gpt, or a model in Python")
      ->needs("--parameters")
      ->type_name("NAME,KEY=V,..|MODULE:CLASS");
  app.add_option("--plugin", o.what.plugins, "library or Python file to list too (it runs); repeatable")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("--python", o.what.python, "interpreter for Python files, with its torch [python3]")
      ->type_name("PROGRAM");
  app.add_option("--timeout", o.timeout_s, "seconds until Python files fail that are still being imported [300]")
      ->check(between(0.1, 1e6, true))
      ->type_name("S");
  add_output(app, o.output, {Form::table, Form::json, Form::markdown});
}

template <class Entry>
std::string devices_of(const Entry& entry) {
  const std::string gpu = entry.unproven_on_gpu ? "gpu (not checked yet)" : "gpu";
  return entry.cpu && entry.cuda ? "cpu, " + gpu : entry.cuda ? gpu : "cpu";
}

struct Section {
  std::string title;
  std::vector<Cells> rows;  // table rows; the first one is the header
};

std::string section_text(const Section& section) {
  return folded(section.title + "\n") + aligned(section.rows, std::vector<bool>(section.rows.front().size(), false));
}

std::string section_markdown(const Section& section) {
  return "## " + section.title + "\n\n" + as_markdown(section.rows);
}

Section strategies_of(const Catalogue& all) {
  std::vector<Cells> rows = {{"STRATEGY", "DEVICES", "PARALLELISM", "GRADIENT", "WHAT IT IS"}};
  for (const auto& entry : all.strategies)
    rows.push_back({entry.name, devices_of(entry), name_of(entry.parallelism), entry.gradient, entry.summary});
  return {"Strategies (--strategy)", rows};
}

Section workloads_of(const Catalogue& all) {
  std::vector<Cells> rows = {{"WORKLOAD", "SCALING", "BATCH", "WHAT IT IS"}};
  for (const auto& entry : all.workloads)
    if (!entry.probe) rows.push_back({entry.name, name_of(entry.scaling), std::to_string(entry.batch), entry.summary});
  return {"Workloads (--workload)", rows};
}

Section backends_of(const Catalogue& all) {
  std::vector<Cells> rows = {{"BACKEND", "TENSORS", "RANKS MAY SHARE A GPU", "WHAT IT IS"}};
  for (const auto& entry : all.backends)
    rows.push_back(
        {entry.name, devices_of(entry), entry.cuda ? (entry.shares_device ? "yes" : "no") : "-", entry.summary});
  for (const auto& entry : all.not_built)
    if (entry.kind == "backend") rows.push_back({entry.name, "-", "-", why_missing(all, entry)});
  return {"Backends (--backend)", rows};
}

Machine this_machines_devices() {
  const GpuSurvey gpus = survey_gpus();
  return detect_machine(gpus.accelerators, gpus.why_none);
}

Section checks_of(const Catalogue& all) {
  std::vector<Cells> rows = {{"CHECK", "PASSES IF"}};
  for (const auto& entry : all.checks) rows.push_back({entry.name, entry.summary});
  return {"Checks (check --filter)", rows};
}

Section devices_of_machine(const Machine& machine) {
  std::vector<Cells> rows = {{"DEVICE", "WHAT IT IS"}};
  rows.push_back({"cpu", std::to_string(machine.cores) + (machine.cores == 1 ? " core" : " cores") +
                             " for virtual devices (--cpus)"});
  for (size_t i = 0; i < machine.gpus.size(); ++i)
    rows.push_back({"gpu " + std::to_string(i), sanitised(machine.gpus[i].name)});
  if (machine.gpus.empty()) rows.push_back({"gpu", "none: " + machine.no_gpu_reason});
  return {"Devices", rows};
}

Section parameters_of(const StrategyEntry& entry) {
  std::vector<Cells> rows = {{"PARAMETER", "DEFAULT", "VALUES", "WHAT IT IS"}};
  for (const auto& param : entry.params) rows.push_back({param.name, param.fallback, param.values, param.summary});
  return {"Parameters (--param " + entry.name + ".NAME=VALUE,..)", rows};
}

Section declarations_of(const StrategyEntry& entry) {
  std::vector<Cells> rows = {{"FIELD", "VALUE", "WHAT IT DECLARES"}};
  for (const auto& one : entry.declares) rows.push_back({one.name, one.value, one.summary});
  return {"Declarations, judged by check (parameters may change them)", rows};
}

std::string strategy_text(const StrategyEntry& entry) {
  std::string text = folded(entry.name + ": " + entry.summary + "\nruns on " + devices_of(entry) + " · " +
                            entry.parallelism + " · gradient " + entry.gradient + " · buffers " + entry.buffers + "\n");
  if (!entry.declares.empty()) text += "\n" + section_text(declarations_of(entry));
  const std::string flags = folded(
      "Flags of run that also apply: --accumulate K micro-batches a step, --clip-norm X, --dtype bf16 for "
      "autocast\n");
  if (entry.params.empty()) return text + "\nno parameters\n" + flags;
  return text + "\n" + section_text(parameters_of(entry)) + "\n" + flags;
}

std::string models_text(const WorkloadEntry& entry) {
  if (entry.models.empty()) return "";
  return "--model NAME: " + join(entry.models) + "\n--model KEY=VALUE,..: " + entry.model_sizes +
         "\n--model NAME,KEY=VALUE,..: a name with other sizes\n";
}

std::string entry_text(const std::string& topic, const Catalogue& all) {
  if (const auto* entry = find_entry(all.strategies, topic)) return strategy_text(*entry);
  if (const auto* entry = find_entry(all.workloads, topic))
    return folded(entry->name + ": " + entry->summary + "\n" + entry->scaling + " scaling, batch " +
                  std::to_string(entry->batch) + "\n" + models_text(*entry));
  if (const auto* entry = find_entry(all.backends, topic))
    return folded(entry->name + ": " + entry->summary + "\n" + devices_of(*entry) + " tensors\n");
  if (const auto* entry = find_entry(all.checks, topic)) return folded(entry->name + ": " + entry->summary + "\n");
  std::vector<std::string> known = names_list<Topic>();
  for (const auto& names :
       {names_for_users(all.strategies), names_for_users(all.workloads), names_for_users(all.backends)})
    known.insert(known.end(), names.begin(), names.end());
  throw UsageError("unknown topic '" + one_line(topic, 60) + "'" + did_you_mean(topic, known) +
                   "; known: " + join(known));
}

Section section_of(Topic topic, const Catalogue& all) {
  switch (topic) {
    case Topic::strategies:
      return strategies_of(all);
    case Topic::workloads:
      return workloads_of(all);
    case Topic::backends:
      return backends_of(all);
    case Topic::checks:
      return checks_of(all);
    case Topic::devices:
      break;
  }
  return devices_of_machine(this_machines_devices());
}

std::string list_text(const std::string& name, const Catalogue& all) {
  if (const auto topic = parse_name<Topic>(name)) return section_text(section_of(*topic, all));
  if (!name.empty()) return entry_text(name, all);
  std::string text;
  for (const Topic topic : {Topic::strategies, Topic::workloads, Topic::backends, Topic::devices})
    text += (text.empty() ? "" : "\n") + section_text(section_of(topic, all));
  return text;
}

template <class Entry>
void sort_by_name(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
}

// Formats the topic called `name` as Markdown, or the single entry (such as a strategy) as plain text. An empty name
// gives the strategies, their parameters, the workloads and the checks, which do not depend on the machine. Strategies
// and workloads are sorted by name, because their registration order depends on the linker.
std::string list_markdown(const std::string& name, const Catalogue& all) {
  if (const auto topic = parse_name<Topic>(name)) return section_markdown(section_of(*topic, all));
  if (!name.empty()) return entry_text(name, all);
  Catalogue sorted = all;
  sort_by_name(sorted.strategies);
  sort_by_name(sorted.workloads);
  std::string text = "# Strategies, parameters, workloads and checks\n\nGenerated by `dpbench list -o markdown`.\n\n" +
                     section_markdown(strategies_of(sorted)) + "\n";
  for (const auto& entry : sorted.strategies)
    if (!entry.params.empty()) text += section_markdown(parameters_of(entry)) + "\n";
  return text + section_markdown(workloads_of(sorted)) + "\n" + section_markdown(checks_of(all));
}

// Returns a topic's entries, a single entry by name, or everything if `topic` is empty. Throws UsageError for an
// unknown name.
Json list_json(const std::string& topic, const Catalogue& all) {
  Json document = all.document;
  const Machine machine = this_machines_devices();
  document["devices"] = {{"cores", machine.cores}, {"gpus", Json::array()}};
  for (const auto& gpu : machine.gpus) document["devices"]["gpus"].push_back(sanitised(gpu.name));
  if (topic.empty()) return document;
  if (topic != "torch" && document.contains(topic)) return document.at(topic);
  for (const char* kind : {"strategies", "workloads", "backends", "checks"})
    for (const auto& entry : document.value(kind, Json::array()))
      if (entry.at("name") == topic) return entry;
  entry_text(topic, all);  // `topic` is unknown, so entry_text() throws UsageError
  return nullptr;
}

// Returns the rows of a table of parameters. json: as parameters_json() of the worker returns it.
std::vector<Cells> parameter_rows(const Json& json) {
  const auto joined = [](const Json& list, const std::string& between) {
    std::vector<std::string> words;
    for (const auto& one : list) words.push_back(one.is_string() ? one.get<std::string>() : one.dump());
    return words.empty() ? "-" : join(words, between);
  };
  const auto placement = [](const Json& text) { return text.is_null() ? "-" : text.get<std::string>(); };
  std::vector<Cells> rows = {{"PARAMETER", "SHAPE", "BLOCKS", "UNIT OF fsdp", "ON 2 RANKS OF tp", "ON 2 RANKS OF ep"}};
  for (const auto& one : json)
    rows.push_back({one.at("name").get<std::string>(), joined(one.at("sizes"), " x "), joined(one.at("blocks"), ", "),
                    one.at("unit").get<std::string>(), placement(one.at("tp")), placement(one.at("ep"))});
  return rows;
}

std::string parameters_text(const std::string& workload, const fs::path& worker, const ListOptions& options,
                            const Catalogue& all) {
  if (!find_entry(all.workloads, workload))
    throw UsageError("--parameters needs a workload" + did_you_mean(workload, names_for_users(all.workloads)) +
                     "; known: " + join(names_for_users(all.workloads)));
  const Json json = query_parameters(worker, workload, options.what.model, options.what.plugins, options.what.python,
                                     options.timeout_s);
  if (options.output == Form::json) return json_text(json);
  const std::vector<Cells> rows = parameter_rows(json);
  return rows_text(rows, std::vector<bool>(rows.front().size(), false), options.output);
}

int list(const ListOptions& given) {
  ListOptions options = given;
  // If the topic names a strategy that wraps one of PyTorch, such as py-ddp, settle_plugins() adds the strategy's
  // plug-in file.
  options.what.strategies = {options.topic};
  const fs::path worker = find_worker();
  settle_plugins(options.what, worker);
  // --model MODULE:CLASS makes the class a workload, and this workload becomes the topic.
  if (!options.what.workloads.empty()) options.topic = options.what.workloads[0];
  const Catalogue all = load_catalogue(worker, options.what.plugins, options.what.python, options.timeout_s);
  const auto text = [&] {
    if (options.parameters) return parameters_text(options.topic, worker, options, all);
    if (options.output == Form::json) return list_json(options.topic, all).dump(1) + "\n";
    return options.output == Form::markdown ? list_markdown(options.topic, all) : list_text(options.topic, all);
  };
  return exit_code({.unsaved = !print(text())});
}

}  // namespace

Command list_command() {
  return reading_command({.name = "list",
                          .arguments = "[TOPIC] [FLAGS]",
                          .summary = "list strategies, workloads, backends, devices, checks; `list ddp` shows one",
                          .examples = {{"list strategies", ""},
                                       {"list ddp", "its parameters"},
                                       {"list gpt --parameters --model small", "name, shape and cuts of each tensor"},
                                       {"list checks", "every check with its meaning"}},
                          .exit_codes = {}},
                         add_flags, list);
}

}  // namespace dpbench
