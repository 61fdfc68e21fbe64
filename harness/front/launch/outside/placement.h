// The rank and world size that an outside launcher (torchrun, mpirun, srun) has assigned to this process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "harness/front/cli/options.h"

namespace dpbench {

struct Placement {
  StartedBy launcher = StartedBy::env;
  int rank = 0, world = 1, local_rank = 0, local_world = 1;
  std::string node = {};   // the launcher's name for the host; empty if it has none
  std::string nonce = {};  // identifies the ranks that the launcher started together; the same on all of them
  std::string master_addr = {};
  int master_port = 0;
  bool store_is_served = false;  // true: the launcher's agent serves the rendezvous store; false: rank 0 does
};

using Variable = std::function<std::optional<std::string>(const std::string& name)>;

// Returns the placement that the launcher's environment variables describe, or nothing if dpbench itself starts the
// ranks. Throws UsageError if the variables are missing or invalid.
std::optional<Placement> find_placement(StartedBy choice, const Variable& variable);
// Finds the placement from this process's environment variables.
std::optional<Placement> find_placement(StartedBy choice);

// Returns the environment variables that tell dpbench-micro, or the relay (relay_process.h), its rank and its
// rendezvous store.
std::map<std::string, std::string> variables_of(const Placement& placement);

// Returns the first host of a Slurm node list: "n3" for "n[3-5,9],m1", "a" for "a,b".
std::string first_host(const std::string& node_list);

}  // namespace dpbench
