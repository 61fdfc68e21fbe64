// The rank and world that an outside launcher has assigned to this process.
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
  std::string node = {};   // the launcher's name for the host, if it has one
  std::string nonce = {};  // unique to this launch and the same on all its ranks
  std::string master_addr = {};
  int master_port = 0;
  bool store_is_served = false;  // the launcher's agent serves the store; otherwise rank 0 does
};

using Variable = std::function<std::optional<std::string>(const std::string& name)>;

// Returns nothing if dpbench starts the ranks itself. Throws UsageError if the launcher's variables are missing or
// invalid.
std::optional<Placement> find_placement(StartedBy choice, const Variable& variable);
std::optional<Placement> find_placement(StartedBy choice);  // in this process's environment

// Returns the first host of a node list: n3 for "n[3-5,9],m1", a for "a,b".
std::string first_host(const std::string& node_list);

}  // namespace dpbench
