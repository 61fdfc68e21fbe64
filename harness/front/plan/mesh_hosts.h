// Tells which axes of a mesh stay within a host and which span several hosts.
#pragma once

#include <string>
#include <vector>

#include "workloads/base/mesh_shape.h"

namespace dpbench {

// Returns a text that tells which axes have each group on one host, such as "tp within a host, dp between hosts". For
// an axis that exchanges activations (tp, cp) between hosts, adds a text with another mesh if that mesh keeps more of
// these axes within a host. hosts: the index of each rank's host.
std::vector<std::string> axes_on_hosts(const MeshShape& mesh, const std::vector<int>& hosts);

}  // namespace dpbench
