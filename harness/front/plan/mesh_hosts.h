// Where the axes of a mesh lie on several hosts.
#pragma once

#include <string>
#include <vector>

#include "workloads/base/mesh_shape.h"

namespace dpbench {

// Returns which axes have all ranks of a group on one host, such as "tp within a host, dp between hosts". If an axis
// that exchanges activations (tp, cp) lies between hosts but needs not, a second text names the mesh that keeps it
// within one, unless the other of the two would then be between hosts. hosts: the host of each rank, as a number.
std::vector<std::string> axes_on_hosts(const MeshShape& mesh, const std::vector<int>& hosts);

}  // namespace dpbench
