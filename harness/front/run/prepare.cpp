#include "harness/front/run/prepare.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "harness/front/launch/outside/agent.h"
#include "harness/front/launch/outside/world.h"
#include "harness/front/launch/worker_program.h"
#include "harness/front/plan/mesh_hosts.h"
#include "harness/report/figures/disturbance.h"
#include "harness/report/machine/tool.h"
#include "harness/report/record/save.h"
#include "workloads/base/error.h"
#include "workloads/data/mnist_files.h"

namespace dpbench {
namespace fs = std::filesystem;

namespace {

// Checks the files in the --data directory before any case runs; a worker would open them only when its case starts.
// Returns the number of samples in the files, or 0 if no case needs them.
int64_t require_data(const Prepared& prepared) {
  const std::string& directory = prepared.options.what.data_dir;
  if (directory.empty()) return 0;
  const bool needed = std::ranges::any_of(prepared.plan.cases, [&](const CaseSpec& spec) {
    const WorkloadEntry* workload = find_entry(prepared.catalogue.workloads, spec.workload);
    return workload && workload->digits;
  });
  return needed ? require_mnist(directory) : 0;
}

void set_sample_count(Catalogue& catalogue, int64_t samples) {
  for (WorkloadEntry& workload : catalogue.workloads)
    if (workload.digits) workload.samples = samples;
}

// Plans twice if the cases read the --data files. The first plan shows whether the files are needed; their sample count
// then decides which cases can run.
Plan plan_with_data(Prepared& prepared) {
  const auto plan = [&] { return make_plan(prepared.options.what, prepared.catalogue, prepared.machine); };
  if (!prepared.options.what.data_dir.empty()) set_sample_count(prepared.catalogue, 0);
  prepared.plan = plan();
  const int64_t samples = require_data(prepared);
  if (samples == 0) return prepared.plan;
  set_sample_count(prepared.catalogue, samples);
  return plan();
}

// Throws UsageError if the limit on open files (ulimit -n) is too low for a group of `ranks` ranks. prepare_process()
// has raised the soft limit.
void require_open_files(int ranks) {
  // This process opens a socket and a pidfd for each rank. A duel runs two groups of ranks at once and so needs four
  // files per rank. A rank, which inherits the limit, needs at most as many for its connections to the others. The
  // other files are libraries and reports.
  constexpr rlim_t files_per_rank = 4, other_files = 64;
  const rlim_t needed = other_files + files_per_rank * static_cast<rlim_t>(ranks);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw UsageError(std::to_string(ranks) + " ranks need " + std::to_string(needed) +
                   " open files; this process is limited to " + std::to_string(limit.rlim_cur) +
                   ". Raise the hard limit (ulimit -Hn), or use fewer ranks");
}

void require_accessible(const std::string& data) {
  std::error_code error;
  if (!data.empty() && !fs::exists(data, error))
    throw UsageError("--data " + data + ": " + (error ? error.message() : "no such file or directory"));
}

// Returns the limit on the seconds that a Python interpreter may take to import the user's files and answer a query.
// Unlike a rank, it reports no progress meanwhile, and imports from a cold disk take minutes.
double answer_s(const MeasuringOptions& options) { return 10 * options.timeout_s; }

// Returns a case's choice of parameter values, model and mesh as the text of a JSON object. The model comes first, so
// that choices of one model are neighbours if sorted: the worker then makes it once. with_model: false for
// `check`, which runs cases with refused models and reports the refusals; model and mesh are then left out.
std::string choice_of(const CaseSpec& spec, bool with_model) {
  Json choice = Json::object();
  if (with_model)
    choice = {{"workload", spec.workload}, {"model", spec.model}, {"scale", spec.scale},
              {"data_dir", spec.data_dir}, {"mesh", spec.mesh},   {"world", spec.world}};
  choice["strategy"] = spec.strategy;
  choice["params"] = spec.params;
  return choice.dump();
}

// Default values never contradict each other, and without a mesh they suit every model.
bool is_asked(const CaseSpec& spec, bool with_model) {
  return !spec.params.empty() || (with_model && !spec.mesh.empty());
}

// Returns for each choice that the worker is asked about why it is refused; an empty text if it is accepted.
std::map<std::string, std::string> refusals_by_choice(const Prepared& prepared, bool with_model) {
  std::map<std::string, std::string> reasons;
  for (const CaseSpec& spec : prepared.plan.cases)
    if (is_asked(spec, with_model)) reasons[choice_of(spec, with_model)];
  if (reasons.empty()) return reasons;
  std::vector<std::string> asked;
  for (const auto& [choice, none] : reasons) asked.push_back(choice);
  const auto answers = query_refusals(prepared.worker, asked, prepared.options.what.plugins,
                                      prepared.options.what.python, answer_s(prepared.options));
  for (size_t i = 0; i < asked.size(); ++i) reasons[asked[i]] = answers[i];
  return reasons;
}

}  // namespace

Prepared prepare(MeasuringOptions options, const fs::path& worker, World* world) {
  require_accessible(options.what.data_dir);
  settle_plugins(options.what, worker);
  Prepared prepared{.options = std::move(options), .world = world, .worker = worker, .gpus = survey_gpus()};
  prepared.catalogue = load_catalogue(prepared.worker, prepared.options.what.plugins, prepared.options.what.python,
                                      answer_s(prepared.options));
  prepared.machine = detect_machine(prepared.gpus.accelerators, prepared.gpus.why_none);
  return prepared;
}

void plan_cases(Prepared& prepared) {
  prepared.plan = plan_with_data(prepared);
  int most = 1;
  for (const CaseSpec& spec : prepared.plan.cases) most = std::max(most, spec.processes);
  if (!prepared.options.dry_run) require_open_files(most);
}

void skip_refused(Prepared& prepared) {
  Plan& plan = prepared.plan;
  bool with_model = !prepared.options.what.check;
  std::map<std::string, std::string> reasons;
  try {
    reasons = refusals_by_choice(prepared, with_model);
  } catch (const UsageError&) {
    if (!with_model) throw;
    // The worker may have died, or taken too long, while it made a model. The ranks that make it will report that.
    with_model = false;
    reasons = refusals_by_choice(prepared, with_model);
  }
  if (reasons.empty()) return;

  std::set<std::string> accepting;  // strategies that accept at least one case
  std::vector<CaseSpec> kept;
  std::vector<SkippedCase> refused;
  for (CaseSpec& spec : plan.cases) {
    const std::string reason = is_asked(spec, with_model) ? reasons.at(choice_of(spec, with_model)) : "";
    if (!reason.empty()) {
      refused.push_back({std::move(spec), reason});
      continue;
    }
    accepting.insert(spec.strategy);
    kept.push_back(std::move(spec));
  }
  for (const SkippedCase& one : refused) {
    const bool chosen = !prepared.options.what.strategies.empty() || !one.spec.params.empty();
    if (chosen && !accepting.contains(one.spec.strategy)) throw UsageError(one.reason);
  }
  plan.cases = std::move(kept);
  std::ranges::move(refused, std::back_inserter(plan.skipped));
}

namespace {

std::string ceiling_warning(const CaseSpec& spec, int cores) {
  char ceiling[32];
  std::snprintf(ceiling, sizeof ceiling, "%.2f", static_cast<double>(cores) / spec.threads);
  return std::string("ceiling ") + ceiling + "x: " + std::to_string(spec.world) + " replicas of " +
         std::to_string(spec.threads) + (spec.threads == 1 ? " thread" : " threads") + " share " +
         std::to_string(cores) + " cores";
}

// Returns for each rank the index of its host in `hosts`, which is the report's env.hosts.
std::vector<int> host_of_ranks(const Json& hosts) {
  std::map<int, int> numbers;  // index of each rank's host; the key is the rank
  for (size_t host = 0; host < hosts.size(); ++host)
    for (const int rank : hosts[host].at("ranks")) numbers[rank] = static_cast<int>(host);
  std::vector<int> all;
  for (const auto& [rank, number] : numbers) all.push_back(number);
  return all;
}

}  // namespace

int cores_of_run(const Prepared& prepared) {
  return prepared.machine.cores * std::max(1, prepared.options.what.launched_hosts);
}

Report new_report(const Prepared& prepared) {
  Report report;
  report.tool = tool_block(prepared.options.argv);
  report.env = environment(this_machine(), prepared.gpus.accelerators, versions_of(prepared.catalogue));
  if (const World* world = prepared.world) report.env["hosts"] = hosts_block(*world);
  report.env["warnings"] = environment_warnings(report.env);
  report.config = config_json(prepared.options);
  report.started = utc_text(std::chrono::system_clock::now());
  const Json hosts = report.env.value("hosts", Json::array());
  for (const auto& spec : prepared.plan.cases) {
    CaseRecord& record = report.cases.emplace_back();
    record.spec = spec;
    record.warnings = host_differences(report.env);
    if (const auto note = prepared.plan.notes.find(spec.id); note != prepared.plan.notes.end())
      record.warnings.push_back(note->second);
    if (!spec.mesh.empty() && hosts.size() > 1)
      for (const std::string& text : axes_on_hosts(parse_mesh(spec.mesh), host_of_ranks(hosts)))
        record.warnings.push_back(text);
    if (crowded(spec, cores_of_run(prepared))) record.warnings.push_back(ceiling_warning(spec, cores_of_run(prepared)));
  }
  for (const auto& [spec, reason] : prepared.plan.skipped) {
    CaseRecord& record = report.cases.emplace_back();
    record.spec = spec;
    record.status = CaseStatus::skipped;
    record.reason = reason;
  }
  for (const CaseRecord& record : report.cases)
    if (const StrategyEntry* strategy = find_entry(prepared.catalogue.strategies, record.spec.strategy))
      for (const ParamEntry& param : strategy->params) report.defaults[strategy->name][param.name] = param.fallback;
  return report;
}

WorkerSettings worker_settings(const Prepared& prepared, const fs::path& logs) {
  return {.program = prepared.worker,
          .python = find_python_host(prepared.worker, prepared.options.what.plugins, prepared.options.what.python),
          .plugins = prepared.options.what.plugins,
          .cpus = prepared.world ? cores_to_share() : prepared.machine.cpus,
          .timeout_s = prepared.options.timeout_s,
          .logs = logs,
          .world = prepared.world};
}

}  // namespace dpbench
