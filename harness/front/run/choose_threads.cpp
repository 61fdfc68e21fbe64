#include "harness/front/run/choose_threads.h"

#include <signal.h>

#include <limits>
#include <map>
#include <string>

namespace dpbench {
namespace {

constexpr double short_step_ns = 1e6;

// Returns a copy of case `spec` that runs the baseline's strategy with one replica on one thread.
CaseSpec probe_of(const CaseSpec& spec, const StrategyEntry& baseline) {
  CaseSpec probe = spec;
  probe.strategy = baseline.name;
  probe.world = probe.processes = probe.threads = 1;
  probe.backend = no_backend;
  probe.mesh = {};
  probe.params = {};
  probe.id = case_id(probe);
  return probe;
}

// Runs a case and returns the time of its step; infinity if the case cannot run.
double step_ns(Launcher& launcher, const CaseSpec& spec) {
  const Sampling sampling{.warmup = 6, .samples = 1, .min_sample_s = 0.005};
  const CaseOutcome outcome =
      launcher.run(spec, Json{{"do", name_of(Order::block)}, {"sampling", to_json(sampling)}, {"check", false}});
  // The signal that interrupted this case, such as SIGINT, ends the whole run.
  if (outcome.kind == CaseOutcome::Kind::interrupted) ::raise(outcome.signal);
  if (outcome.kind != CaseOutcome::Kind::ran || outcome.ranks.empty()) return std::numeric_limits<double>::infinity();
  const RankRecord& rank = outcome.ranks.front();
  // Measure the step's CPU time: on one thread, it is the duration without the intervals in which other programs had
  // the core.
  const auto& times = rank.cpu_ns.empty() ? rank.samples_ns : rank.cpu_ns;
  return static_cast<double>(times.at(0)) / static_cast<double>(rank.steps_per_sample);
}

}  // namespace

void choose_threads(Prepared& prepared, const Launcher::Say& say) {
  const StrategyEntry* baseline = baseline_on(Device::cpu, prepared.catalogue);
  if (prepared.options.what.threads > 0 || !baseline) return;
  const Signals signals;
  Launcher launcher(worker_settings(prepared, {}), signals, Event::ran, say);
  std::map<std::string, bool> is_short;
  for (CaseSpec& spec : prepared.plan.cases) {
    if (spec.device != Device::cpu || spec.threads == 1) continue;
    const CaseSpec probe = probe_of(spec, *baseline);
    const auto [known, is_new] = is_short.try_emplace(probe.id, false);
    if (is_new) known->second = step_ns(launcher, probe) < short_step_ns;
    if (known->second) spec.threads = 1;
  }
  launcher.end_group();
}

}  // namespace dpbench
