#include "harness/front/launched/run_launched.h"

#include "harness/front/guard.h"
#include "harness/front/launched/agent.h"
#include "harness/front/launched/world.h"
#include "harness/front/machine.h"
#include "harness/front/scratch.h"
#include "harness/front/worker_program.h"
#include "workloads/error.h"

namespace dpbench {
namespace {

bool needs_ranks(const Options& options) {
  if (options.dry_run) return false;
  return options.command == "run" || options.command == "check" || options.command == "train";
}

// Each rank's share of its host's cores, or all of those that the launcher has bound it to.
int threads_of_a_rank(const Placement& placement) {
  const Machine machine = detect_machine({}, "");
  return cores_to_share().empty() ? machine.cores : std::max(1, machine.cores / placement.local_world);
}

int lead(Options options, const Placement& placement, int (*command)(const Options&)) {
  const Scratch shared;
  World world(find_worker(), placement, options.timeout_s);
  const int code = guarded([&] {
    world.gather(hello_of(placement, shared.path()));
    options.world = &world;
    options.what.launched_hosts = static_cast<int>(hosts_block(world).size());
    return command(options);
  });
  world.end(code);
  return code;
}

}  // namespace

int run_launched(const Options& given, const Placement& placement, int (*command)(const Options&)) {
  Options options = given;
  if (options.command == "duel")
    throw UsageError("duel starts the ranks of two builds itself: run it without " + placement.launcher + ", or with --launcher self");
  options.what.launched_by = placement.launcher;
  options.what.launched_world = placement.world;
  options.what.launched_local_world = placement.local_world;
  // As if every host had as many ranks as this one; whoever leads knows better once all have come.
  options.what.launched_hosts = (placement.world + placement.local_world - 1) / placement.local_world;
  if (options.what.threads == 0) options.what.threads = threads_of_a_rank(placement);
  if (!needs_ranks(options) || placement.world == 1) return placement.rank == 0 ? command(options) : 0;
  return placement.rank == 0 ? lead(options, placement, command) : run_agent(options, placement);
}

}  // namespace dpbench
