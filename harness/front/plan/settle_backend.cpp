#include <string>

#include "harness/front/plan/plan_steps.h"

namespace dpbench {
namespace {

// Those of a case's replicas that are on this host.
int here_of(const CaseSpec& spec, const Selection& what) {
  return what.launched_world > 0 ? what.launched_local_world : spec.world;
}

// Of a strategy that runs on GPUs alone: another that shares a model out in the same way.
std::string way_without_gpu(const Row& row, const Catalogue& catalogue) {
  for (const auto& other : catalogue.strategies)
    if (other.parallelism == row.strategy->parallelism && other.runs_on(Device::cpu))
      return "; on the CPU: --strategy " + other.name + " --cpus " + std::to_string(row.spec.world);
  return "";
}

void refuse_gpu(Row& row, const Catalogue& catalogue, const Machine& machine) {
  row.unavailable = true;
  row.why_not = "'" + row.spec.strategy + "' needs a GPU and this machine has none (" + machine.no_gpu_reason + ")" +
                way_without_gpu(row, catalogue);
  if (row.spec.backend == auto_backend) row.spec.backend = no_backend;
}

// shared: by ranks that share a GPU. Null if this build has none. Memory of a host is of no use where every host has
// one rank: that backend comes last then.
const BackendEntry* preferred_backend(Device device, bool shared, const Selection& what, const Catalogue& catalogue) {
  const bool one_rank_a_host = what.launched_hosts > 1 && what.launched_hosts == what.launched_world;
  const auto order = [&](const BackendEntry& entry) {
    return std::pair(!(one_rank_a_host && entry.shares_memory), entry.preference(device));
  };
  const BackendEntry* best = nullptr;
  for (const auto& entry : catalogue.backends) {
    if (entry.preference(device) == 0 || !entry.takes(device) || (shared && !entry.shares_device)) continue;
    if (!best || order(*best) < order(entry)) best = &entry;
  }
  return best;
}

}  // namespace

void settle_backend(Row& row, const Selection& what, const Catalogue& catalogue, const Machine& machine) {
  CaseSpec& spec = row.spec;
  const int here = here_of(spec, what);
  spec.oversubscribe = spec.device == Device::cuda && static_cast<size_t>(here) > machine.gpus.size();
  if (spec.device == Device::cuda && machine.gpus.empty()) return refuse_gpu(row, catalogue, machine);
  if (row.strategy->parallelism != Parallelism::ranks) return;
  const BackendEntry *preferred = preferred_backend(spec.device, /*shared=*/false, what, catalogue),
                     *able = spec.oversubscribe ? preferred_backend(spec.device, /*shared=*/true, what, catalogue)
                                                : preferred;
  const bool automatic = spec.backend == auto_backend;
  if (automatic) spec.backend = able ? able->name : no_backend;
  const BackendEntry* backend = find_entry(catalogue.backends, spec.backend);
  if (!backend) {
    row.why_not = std::string("no backend of this build carries ") + spec.device + " tensors between so many ranks";
    row.unavailable = true;
  } else if (backend->threads) {
    row.why_not = "backend '" + backend->name + "' joins threads of one process: it is for tests alone";
  } else if (!backend->takes(spec.device)) {
    row.why_not = "backend '" + backend->name + "' takes no " + spec.device + " tensors; use --backend auto";
  } else if (spec.oversubscribe && !backend->shares_device) {
    row.why_not = "backend '" + backend->name + "' lets no two ranks share a GPU; use " +
                  (able ? "--backend " + able->name + " or " : "") + "fewer --gpus";
  } else if (automatic && able != preferred) {
    row.note = able->name + ": " + std::to_string(here) + " ranks share " + count_of(machine.gpus.size()) + ", which " +
               preferred->name + " refuses";
  }
}

}  // namespace dpbench
