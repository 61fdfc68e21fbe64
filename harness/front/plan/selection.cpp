#include "harness/front/plan/selection.h"

#include "harness/front/text/text.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// any: the name that stands for what there is.
template <class Entry>
[[noreturn]] void refuse_name(const std::string& kind, const std::string& name, const std::vector<Entry>& entries,
                              const std::string& any, const Catalogue& catalogue) {
  std::vector<std::string> known = names_for_users(entries);
  for (const auto& missing : catalogue.not_built) {
    if (missing.kind != kind) continue;
    if (missing.name == name) throw Unavailable(kind + " '" + name + "' is " + why_missing(catalogue, missing));
    known.push_back(missing.name);
  }
  known.push_back(any);
  std::string meant = did_you_mean(name, known);
  if (meant.empty()) meant = did_you_mean(name, names_of(entries));
  throw UsageError("unknown " + kind + " '" + one_line(name, 60) + "'" + meant + "; known: " + join(known));
}

template <class Entry>
std::vector<const Entry*> chosen(const std::string& kind, const std::vector<std::string>& names,
                                 const std::vector<Entry>& entries, const Catalogue& catalogue) {
  std::vector<const Entry*> found;
  for (const auto& name : without_repeats(names)) {
    const Entry* entry = find_entry(entries, name);
    if (!entry) refuse_name(kind, name, entries, "all", catalogue);
    found.push_back(entry);
  }
  return found;
}

std::string numbers_of(const std::vector<int>& worlds) {
  std::vector<std::string> numbers;
  for (const int world : worlds) numbers.push_back(std::to_string(world));
  return join(numbers, ",");
}

void refuse_missing_gpus(const Selection& what, const Machine& machine) {
  if (what.gpus.empty()) return;
  const bool launched = what.launched_world > 0;
  const int most = launched ? what.launched_local_world : *std::max_element(what.gpus.begin(), what.gpus.end());
  const std::string worlds = numbers_of(what.gpus), cpus = "--cpus " + worlds;
  const std::string asked =
      "--gpus " + worlds + (launched ? ", " + std::to_string(most) + " of them on this host" : "");
  if (machine.gpus.empty())
    throw Unavailable(asked + ": this machine has no GPU (" + machine.no_gpu_reason +
                      "); the same on virtual CPU devices: " + cpus);
  if (static_cast<size_t>(most) > machine.gpus.size() && !what.oversubscribe)
    throw Unavailable(asked + ": this machine has " + count_of(machine.gpus.size()) + "; use " + cpus +
                      ", or --oversubscribe to share them");
}

// One of the worlds asked for must be the one that was started; the plan skips the others.
void refuse_other_world(const Selection& what) {
  if (what.launched_world == 0 || (what.gpus.empty() && what.cpus.empty())) return;
  const auto& asked = what.gpus.empty() ? what.cpus : what.gpus;
  if (std::find(asked.begin(), asked.end(), what.launched_world) != asked.end()) return;
  const std::string flag = what.gpus.empty() ? "--cpus " : "--gpus ", started = std::to_string(what.launched_world);
  throw UsageError(flag + numbers_of(asked) + ", but " + what.launched_by + " started " + started +
                   (what.launched_world == 1 ? " rank" : " ranks") + ": use " + flag + started +
                   ", or start as many, or --launcher self");
}

}  // namespace

std::string count_of(size_t gpus) { return gpus == 1 ? "1 GPU" : std::to_string(gpus) + " GPUs"; }

std::vector<const StrategyEntry*> chosen_strategies(const Selection& what, const Catalogue& catalogue) {
  auto found = chosen("strategy", what.strategies, catalogue.strategies, catalogue);
  if (what.strategies.empty())
    for (const auto& entry : catalogue.strategies) found.push_back(&entry);
  return found;
}

std::vector<const WorkloadEntry*> chosen_workloads(const Selection& what, const Catalogue& catalogue) {
  auto found = chosen("workload", what.workloads, catalogue.workloads, catalogue);
  if (what.workloads.empty())
    for (const auto& entry : catalogue.workloads)
      if (!entry.probe || what.probes) found.push_back(&entry);
  return found;
}

std::vector<std::string> chosen_backends(const Selection& what, const Catalogue& catalogue) {
  if (what.backends.empty()) return {auto_backend};
  for (const auto& name : what.backends)
    if (name != auto_backend && !find_entry(catalogue.backends, name))
      refuse_name("backend", name, catalogue.backends, auto_backend, catalogue);
  return without_repeats(what.backends);
}

std::vector<Place> chosen_places(const Selection& what, const Machine& machine) {
  refuse_missing_gpus(what, machine);
  refuse_other_world(what);
  std::vector<Place> places;
  for (const int world : without_repeats(what.gpus)) places.push_back({Device::cuda, world});
  for (const int world : without_repeats(what.cpus)) places.push_back({Device::cpu, world});
  if (!places.empty()) return places;
  const int gpus = static_cast<int>(machine.gpus.size());
  if (what.launched_world > 0) return {{gpus > 0 ? Device::cuda : Device::cpu, what.launched_world}};
  if (gpus > 0 && what.default_worlds.empty()) return {{Device::cuda, gpus}};
  if (what.one_place) return {{Device::cpu, std::max(1, machine.cores)}};
  for (const int world : what.default_worlds.empty() ? std::vector<int>{1, 2} : what.default_worlds)
    if (gpus == 0 || world <= gpus) places.push_back({gpus > 0 ? Device::cuda : Device::cpu, world});
  return places;
}

}  // namespace dpbench
