#include <string>

#include "harness/front/plan/plan_steps.h"

namespace dpbench {
namespace {

// Returns how many of a case's devices are on this host.
int local_replicas(const CaseSpec& spec, const Selection& selection) {
  return selection.launched_world > 0 ? selection.launched_local_world : spec.world;
}

// Returns a hint that suggests a CPU strategy of the same parallelism in place of a GPU-only one; empty if there is
// none.
std::string cpu_alternative(const Row& row, const Catalogue& catalogue) {
  for (const auto& other : catalogue.strategies)
    if (other.parallelism == row.strategy->parallelism && other.runs_on(Device::cpu))
      return "; on the CPU: --strategy " + other.name + " --cpus " + std::to_string(row.spec.world);
  return "";
}

void refuse_gpu(Row& row, const Catalogue& catalogue, const Machine& machine) {
  row.unavailable = true;
  row.skip_reason = "'" + row.spec.strategy + "' needs a GPU and this machine has none (" + machine.no_gpu_reason +
                    ")" + cpu_alternative(row, catalogue);
  if (row.spec.backend == auto_backend) row.spec.backend = no_backend;
}

// Returns the preferred backend, or null if this build has no suitable one. `shared` requires a backend whose ranks can
// share a GPU. Shared-memory backends come last if each host has only one rank.
const BackendEntry* preferred_backend(Device device, bool shared, const Selection& selection,
                                      const Catalogue& catalogue) {
  const bool one_rank_per_host = selection.launched_hosts > 1 && selection.launched_hosts == selection.launched_world;
  const auto order = [&](const BackendEntry& entry) {
    return std::pair(!(one_rank_per_host && entry.shares_memory), entry.preference(device));
  };
  const BackendEntry* best = nullptr;
  for (const auto& entry : catalogue.backends) {
    if (entry.preference(device) == 0 || !entry.takes(device) || (shared && !entry.shares_device)) continue;
    if (!best || order(*best) < order(entry)) best = &entry;
  }
  return best;
}

void choose_backend(Row& row, const Selection& selection, const Catalogue& catalogue, const Machine& machine) {
  CaseSpec& spec = row.spec;
  const int here = local_replicas(spec, selection);
  spec.oversubscribe = spec.device == Device::cuda && static_cast<size_t>(here) > machine.gpus.size();
  if (!row.strategy->runs_on(spec.device)) {
    row.skip_reason = "'" + spec.strategy + "' runs on CPUs only. Use --cpus " + std::to_string(spec.world);
    if (spec.backend == auto_backend) spec.backend = no_backend;
    return;
  }
  if (spec.device == Device::cuda && machine.gpus.empty()) return refuse_gpu(row, catalogue, machine);
  if (row.strategy->parallelism != Parallelism::ranks) return;
  const BackendEntry *preferred = preferred_backend(spec.device, /*shared=*/false, selection, catalogue),
                     *usable = spec.oversubscribe
                                   ? preferred_backend(spec.device, /*shared=*/true, selection, catalogue)
                                   : preferred;
  const bool automatic = spec.backend == auto_backend;
  if (automatic) spec.backend = usable ? usable->name : no_backend;
  const BackendEntry* backend = find_entry(catalogue.backends, spec.backend);
  if (!backend) {
    row.skip_reason =
        std::string("no backend of this build supports ") + spec.device + " tensors for this number of ranks";
    row.unavailable = true;
  } else if (backend->threads) {
    row.skip_reason = "backend '" + backend->name + "' connects threads of one process and is for tests only";
  } else if (!backend->takes(spec.device)) {
    row.skip_reason =
        "backend '" + backend->name + "' does not support " + spec.device + " tensors. Use --backend auto";
  } else if (spec.oversubscribe && !backend->shares_device) {
    row.skip_reason = "backend '" + backend->name + "' does not let ranks share a GPU. Use " +
                      (usable ? "--backend " + usable->name + " or " : "") + "fewer --gpus";
  } else if (automatic && usable != preferred) {
    row.note = usable->name + ": " + std::to_string(here) + " ranks share " + count_of(machine.gpus.size()) + ", and " +
               preferred->name + " does not support that";
  }
}

// Returns a note if a GPU case's strategy or backend has not passed all its checks on GPUs yet; the note names it.
// Empty if both have passed.
std::string unproven_part(const Row& row, const Catalogue& catalogue) {
  const CaseSpec& spec = row.spec;
  const BackendEntry* backend = find_entry(catalogue.backends, spec.backend);
  std::string what;
  if (row.strategy->unproven_on_gpu)
    what = spec.strategy;
  else if (backend && backend->unproven_on_gpu && spec.processes > 1)
    what = spec.backend;
  else if (row.strategy->parallelism == Parallelism::replicas && spec.world > 1 && !spec.oversubscribe)
    what = spec.strategy + " on several GPUs";
  return what.empty() ? "" : what + " has not passed all its checks on GPUs yet";
}

}  // namespace

void settle_backend(Row& row, const Selection& selection, const Catalogue& catalogue, const Machine& machine) {
  choose_backend(row, selection, catalogue, machine);
  if (row.spec.device != Device::cuda || !row.skip_reason.empty()) return;
  const std::string unproven = unproven_part(row, catalogue);
  row.note += (row.note.empty() || unproven.empty() ? "" : "; ") + unproven;
}

}  // namespace dpbench
