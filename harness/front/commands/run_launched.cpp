#include "harness/front/commands/run_launched.h"

#include <algorithm>

#include "harness/front/commands/command_errors.h"
#include "harness/front/launch/outside/agent.h"
#include "harness/front/launch/outside/world.h"
#include "harness/front/launch/worker_program.h"
#include "harness/front/plan/machine.h"
#include "harness/front/process/scratch.h"
#include "workloads/base/error.h"

namespace dpbench {
namespace {

// Returns the number of threads for a rank: its equal share of the host's cores, or all cores to which the launcher has
// bound the rank.
int threads_per_rank(const Placement& placement) {
  const Machine machine = detect_machine({}, "");
  return cores_to_share().empty() ? machine.cores : std::max(1, machine.cores / placement.local_world);
}

int run_rank0(MeasuringOptions& options, const Placement& placement, const std::function<int(World*)>& measure) {
  const Scratch shared;
  World world(find_worker(), placement, options.timeout_s);
  const int code = exit_code_of_command([&] {
    world.gather(hello_of(placement, shared.path()));
    options.what.launched_hosts = static_cast<int>(hosts_block(world).size());
    return measure(&world);
  });
  world.end(code);
  return code;
}

}  // namespace

int run_launched(MeasuringOptions& options, const Placement& placement, const std::function<int(World*)>& measure) {
  if (!options.takes_ranks)
    throw UsageError("this command starts all ranks itself. Run it without " + placement.launcher +
                     ", or with --launcher self");
  options.what.launched_by = name_of(placement.launcher);
  options.what.launched_world = placement.world;
  // Replace a drawn seed by 1: each rank draws another seed, but all ranks of a launcher must plan the same cases.
  if (options.what.check && options.what.check->drawn_seed) options.what.seed = 1;
  options.what.launched_local_world = placement.local_world;
  // Estimate the number of the launcher's hosts, assuming the same number of ranks on each. Rank 0 corrects it once all
  // ranks have joined.
  options.what.launched_hosts = (placement.world + placement.local_world - 1) / placement.local_world;
  if (options.what.threads == 0) options.what.threads = threads_per_rank(placement);
  if (options.dry_run || placement.world == 1) return placement.rank == 0 ? measure(nullptr) : 0;
  return placement.rank == 0 ? run_rank0(options, placement, measure) : run_agent(options, placement);
}

}  // namespace dpbench
