// Where an outside launcher has put this process: a rank of a world that dpbench did not start itself.
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
  std::string node = {};   // the launcher's own name of the host, where it has one
  std::string nonce = {};  // of this launch alone, the same on all its ranks
  std::string master_addr = {};
  int master_port = 0;
  bool store_is_served = false;  // by the launcher's agent; otherwise by rank 0
};

using Variable = std::function<std::optional<std::string>(const std::string& name)>;

// Nothing: dpbench starts the ranks. UsageError when the named launcher has set no rank, or when what it has set makes
// no sense.
std::optional<Placement> find_placement(StartedBy choice, const Variable& variable);
std::optional<Placement> find_placement(StartedBy choice);  // in this process's environment

// The first host of "n[3-5,9],m1" and of "a,b".
std::string first_host(const std::string& node_list);

}  // namespace dpbench
