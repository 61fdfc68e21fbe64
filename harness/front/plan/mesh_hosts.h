// Tells which axes of a mesh stay within a host and which span several hosts.
#pragma once

#include <string>
#include <vector>

#include "workloads/base/mesh_shape.h"

namespace dpbench {

// The first text says for each mesh axis whether its groups of ranks stay on one host, such as "tp within a host, dp
// between hosts". Each further text advises moving one axis to the end of the mesh: an axis that exchanges activations
// within layers (tp, cp, ep) and spans hosts, if more such axes then stay within a host. `hosts` holds the host index
// of each rank.
std::vector<std::string> axes_on_hosts(const MeshShape& mesh, const std::vector<int>& hosts);

}  // namespace dpbench
