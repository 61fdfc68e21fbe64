// Tells which axes of a mesh stay within a host and which span several hosts.
#pragma once

#include <string>
#include <vector>

#include "workloads/base/mesh_shape.h"

namespace dpbench {

// Returns a text that says for each mesh axis whether its groups of ranks stay on one host, such as "tp within a host,
// dp between hosts". If an axis that exchanges activations within layers (tp, cp, ep) spans hosts, and moving it to the
// end of the mesh keeps more of these axes within a host, adds a text that advises this. `hosts` holds the host index
// of each rank.
std::vector<std::string> axes_on_hosts(const MeshShape& mesh, const std::vector<int>& hosts);

}  // namespace dpbench
