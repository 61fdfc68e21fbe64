#include "harness/front/plan/selection.h"

#include "harness/forecast/plan/layout.h"
#include "harness/front/text/text.h"
#include "workloads/base/error.h"
#include "workloads/gpt/shape.h"

namespace dpbench {
namespace {

// Throws UsageError for an unknown name and Unavailable for one that this build lacks. any: the word that is accepted
// in place of a name ("all" or "auto").
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

void refuse_missing_gpus(const Selection& selection, const Machine& machine) {
  if (selection.gpus.empty()) return;
  const bool launched = selection.launched_world > 0;
  const int most =
      launched ? selection.launched_local_world : *std::max_element(selection.gpus.begin(), selection.gpus.end());
  const std::string worlds = numbers_of(selection.gpus), cpus = "--cpus " + worlds;
  const std::string asked =
      "--gpus " + worlds + (launched ? ", " + std::to_string(most) + " of them on this host" : "");
  if (machine.gpus.empty())
    throw Unavailable(asked + ": this machine has no GPU (" + machine.no_gpu_reason +
                      "). Use virtual CPU devices: " + cpus);
  if (static_cast<size_t>(most) > machine.gpus.size() && !selection.oversubscribe)
    throw Unavailable(asked + ": this machine has " + count_of(machine.gpus.size()) + ". Use " + cpus +
                      ", or --oversubscribe to share GPUs");
}

// Throws UsageError unless the requested worlds include the world that an outside launcher has started. The plan skips
// the other requested worlds.
void refuse_other_world(const Selection& selection) {
  if (selection.launched_world == 0 || (selection.gpus.empty() && selection.cpus.empty())) return;
  const auto& asked = selection.gpus.empty() ? selection.cpus : selection.gpus;
  if (std::find(asked.begin(), asked.end(), selection.launched_world) != asked.end()) return;
  const std::string flag = selection.gpus.empty() ? "--cpus " : "--gpus ",
                    started = std::to_string(selection.launched_world);
  throw UsageError(flag + numbers_of(asked) + ", but " + selection.launched_by + " started " + started +
                   (selection.launched_world == 1 ? " rank" : " ranks") + ". Use " + flag + started + ", launch " +
                   numbers_of(asked) + " ranks, or use --launcher self");
}

// Returns the places (device, world size and mesh) of all --mesh values. With --mesh, the flags --gpus and --cpus only
// choose the device.
std::vector<Place> places_of_meshes(const Selection& selection, const Machine& machine) {
  std::vector<Place> places;
  std::vector<int> worlds;
  const auto has = [](const std::vector<int>& list, int world) { return std::ranges::count(list, world) > 0; };
  for (const std::string& text : without_repeats(selection.meshes)) {
    const MeshShape shape = parse_mesh(text);
    const int world = ranks_of(shape);
    const std::string mesh = is_plain(shape) ? "" : text_of(shape);
    worlds.push_back(world);
    if (has(selection.gpus, world)) places.push_back({Device::cuda, world, mesh, true});
    if (has(selection.cpus, world)) places.push_back({Device::cpu, world, mesh, true});
    if (!selection.gpus.empty() || !selection.cpus.empty()) continue;
    const bool fits = static_cast<size_t>(world) <= machine.gpus.size() || selection.oversubscribe;
    places.push_back({!machine.gpus.empty() && fits ? Device::cuda : Device::cpu, world, mesh, true});
  }
  for (const auto& [flag, asked] : {std::pair("--gpus ", &selection.gpus), std::pair("--cpus ", &selection.cpus)})
    for (const int world : *asked)
      if (!has(worlds, world))
        throw UsageError(flag + std::to_string(world) + ": no --mesh has " + std::to_string(world) +
                         (world == 1 ? " rank" : " ranks"));
  for (const int world : worlds)
    if (!(selection.gpus.empty() && selection.cpus.empty()) && !has(selection.gpus, world) &&
        !has(selection.cpus, world))
      throw UsageError("--mesh: a mesh has " + std::to_string(world) + " ranks; add " + std::to_string(world) +
                       " to --cpus or --gpus, or leave these flags out");
  return places;
}

}  // namespace

std::string count_of(size_t gpus) { return gpus == 1 ? "1 GPU" : std::to_string(gpus) + " GPUs"; }

std::vector<const StrategyEntry*> chosen_strategies(const Selection& selection, const Catalogue& catalogue) {
  auto found = chosen("strategy", selection.strategies, catalogue.strategies, catalogue);
  if (selection.strategies.empty())
    for (const auto& entry : catalogue.strategies) found.push_back(&entry);
  return found;
}

const StrategyEntry* chosen_reference(const Selection& selection, const Catalogue& catalogue) {
  if (selection.reference.strategy.empty()) return nullptr;
  return chosen("strategy", {selection.reference.strategy}, catalogue.strategies, catalogue).front();
}

std::vector<const WorkloadEntry*> chosen_workloads(const Selection& selection, const Catalogue& catalogue) {
  auto found = chosen("workload", selection.workloads, catalogue.workloads, catalogue);
  for (const WorkloadEntry* entry : found)
    if (!selection.model.empty() && entry->models.empty())
      throw UsageError("--model: " + entry->name + " has a single model; --model is for workloads such as gpt");
  if (selection.workloads.empty())
    for (const auto& entry : catalogue.workloads)
      if ((!entry.probe || (selection.check && selection.recompute == 0)) &&
          (selection.model.empty() || !entry.models.empty()) && !(selection.fixed_models && !entry.models.empty()))
        found.push_back(&entry);
  if (!selection.model.empty() &&
      std::ranges::find(found, forecast::planned_workload, &WorkloadEntry::name) != found.end())
    gpt::parse_shape(selection.model);  // throws UsageError
  return found;
}

std::vector<std::string> chosen_backends(const Selection& selection, const Catalogue& catalogue) {
  if (selection.backends.empty()) return {auto_backend};
  for (const auto& name : selection.backends)
    if (name != auto_backend && !find_entry(catalogue.backends, name))
      refuse_name("backend", name, catalogue.backends, auto_backend, catalogue);
  return without_repeats(selection.backends);
}

std::vector<Place> chosen_places(const Selection& selection, const Machine& machine) {
  refuse_missing_gpus(selection, machine);
  refuse_other_world(selection);
  if (!selection.meshes.empty()) return places_of_meshes(selection, machine);
  std::vector<Place> places;
  for (const int world : without_repeats(selection.gpus)) places.push_back({Device::cuda, world});
  for (const int world : without_repeats(selection.cpus)) places.push_back({Device::cpu, world});
  if (!places.empty()) return places;
  const int gpus = static_cast<int>(machine.gpus.size());
  if (selection.launched_world > 0) return {{gpus > 0 ? Device::cuda : Device::cpu, selection.launched_world}};
  if (gpus > 0 && selection.default_worlds.empty()) return {{Device::cuda, gpus}};
  if (selection.one_place) return {{Device::cpu, std::max(1, machine.cores)}};
  std::vector<int> worlds = selection.default_worlds.empty() ? std::vector<int>{1, 2} : selection.default_worlds;
  if (gpus > 0)
    for (int& world : worlds) world = std::min(world, gpus);
  for (const int world : without_repeats(worlds)) places.push_back({gpus > 0 ? Device::cuda : Device::cpu, world});
  return places;
}

}  // namespace dpbench
