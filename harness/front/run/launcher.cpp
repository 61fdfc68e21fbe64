#include "harness/front/run/launcher.h"

#include <csignal>

#include "harness/front/launch/outside/launched_group.h"

namespace dpbench {
namespace {

constexpr int tick_milliseconds = 100;

}  // namespace

Launcher::Launcher(WorkerSettings settings, const Signals& signals, Event answer, Say say)
    : settings_(std::move(settings)), signals_(signals), answer_(answer), log_(std::move(say)) {
  if (settings_.logs.empty()) settings_.logs = scratch_.path() / "logs";
}

CaseOutcome Launcher::run(const CaseSpec& spec, Json command, const CaseWatch::EventHandler& handler) {
  const ProcessSettings& key = spec;
  if (group_ && key != key_) end_group();
  if (!group_) open_group(key);
  command["case"] = to_json(spec);
  group_->send(command);
  CaseWatch case_watch(spec.id, answer_, spec.processes, settings_.timeout_s, ready_, monotonic_seconds(), handler,
                       where_ranks_are(spec));
  CaseOutcome outcome = watch(spec.id, case_watch);
  ready_ = case_watch.all_ready();
  if (outcome.kind == CaseOutcome::Kind::ran && !outcome.group_over) return outcome;
  group_->kill(signals_);
  explain(outcome);
  drop_group();
  return outcome;
}

// Returns for each rank the text that error messages show after its number: its coordinates on a mesh of several axes,
// and its host if there are several.
std::vector<std::string> Launcher::where_ranks_are(const CaseSpec& spec) const {
  const MeshShape mesh = parse_mesh(spec.mesh);
  const auto hosts =
      settings_.world && spec.processes > 1 ? settings_.world->names_of_hosts() : std::vector<std::string>();
  std::vector<std::string> where(static_cast<size_t>(spec.processes));
  for (int rank = 0; rank < spec.processes; ++rank) {
    if (mesh.size() > 1) where[static_cast<size_t>(rank)] += " (" + coordinates(mesh, rank) + ")";
    if (!hosts.empty()) where[static_cast<size_t>(rank)] += " on " + hosts[static_cast<size_t>(rank)];
  }
  return where;
}

void Launcher::open_group(const ProcessSettings& key) {
  const std::string name = "group" + std::to_string(++groups_);
  GroupSpec spec{key, name + "-" + key.device + "-x" + std::to_string(key.processes)};
  if (key.python) spec.name += "-python";
  if (key.backend != no_backend) spec.name += "-" + key.backend;
  log_("starting " + spec.name + " with " + std::to_string(key.threads) + " threads per replica");
  if (settings_.world && spec.processes > 1)
    group_ = std::make_unique<LaunchedGroup>(spec, settings_, scratch_);
  else
    group_ = std::make_unique<WorkerGroup>(spec, settings_, scratch_);
  key_ = key;
  ready_ = false;
}

CaseOutcome Launcher::watch(const std::string& case_id, CaseWatch& case_watch) {
  std::string told;
  while (true) {
    const bool signalled = group_->wait(case_watch, signals_, tick_milliseconds);
    if (tell_ && case_watch.checking() != told) tell_(case_id, told = case_watch.checking());
    if (signalled)
      if (const int signal = signals_.take())
        return {.kind = CaseOutcome::Kind::interrupted, .reason = "interrupted", .signal = signal};
    if (settings_.world && settings_.world->launcher_is_gone())
      return {.kind = CaseOutcome::Kind::interrupted, .reason = "interrupted", .signal = SIGHUP};
    // Read the messages of an outside launcher's ranks only while none of its groups is open: an open group reads them
    // itself, and would miss those read here.
    if (settings_.world && key_.processes == 1 && settings_.world->open_groups == 0) settings_.world->keep_alive();
    if (auto outcome = case_watch.verdict(monotonic_seconds())) return *outcome;
  }
}

void Launcher::explain(CaseOutcome& outcome) const {
  if (outcome.culprit < 0 || (outcome.kind != CaseOutcome::Kind::failed && !outcome.unexplained)) return;
  const std::string tail = group_->log_tail(outcome.culprit);
  if (!tail.empty()) outcome.reason += "\nits last output:\n" + tail;
}

std::vector<std::string> Launcher::end_group() {
  if (!group_) return {};
  auto complaints = group_->quit(signals_);
  drop_group();
  return complaints;
}

void Launcher::drop_group() {
  const std::string name = group_->spec().name;
  group_.reset();
  scratch_.forget_group(name);
}

}  // namespace dpbench
