#include "harness/front/plan/mesh_hosts.h"

#include <algorithm>

namespace dpbench {
namespace {

bool is_within_hosts(const MeshShape& mesh, size_t axis, const std::vector<int>& hosts) {
  return std::ranges::all_of(groups_of_axis(mesh, axis), [&](const std::vector<int>& group) {
    return std::ranges::all_of(
        group, [&](int rank) { return hosts[static_cast<size_t>(rank)] == hosts[static_cast<size_t>(group.front())]; });
  });
}

bool exchanges_activations(const std::string& name) {
  return axis_has(&KnownAxis::cuts_layers, name) || axis_has(&KnownAxis::cuts_experts, name);
}

// Counts the axes that exchange activations and whose groups of ranks do not span hosts.
int axes_within_hosts(const MeshShape& mesh, const std::vector<int>& hosts) {
  int count = 0;
  for (size_t axis = 0; axis < mesh.size(); ++axis)
    count += exchanges_activations(mesh[axis].name) && is_within_hosts(mesh, axis, hosts) ? 1 : 0;
  return count;
}

MeshShape with_last(MeshShape mesh, size_t axis) {
  std::rotate(mesh.begin() + static_cast<std::ptrdiff_t>(axis), mesh.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              mesh.end());
  return mesh;
}

}  // namespace

std::vector<std::string> axes_on_hosts(const MeshShape& mesh, const std::vector<int>& hosts) {
  std::string where;
  std::vector<std::string> advice;
  for (size_t axis = 0; axis < mesh.size(); ++axis) {
    const std::string& name = mesh[axis].name;
    const bool within = is_within_hosts(mesh, axis, hosts);
    where += (where.empty() ? "" : ", ") + name + (within ? " within a host" : " between hosts");
    if (within || !exchanges_activations(name)) continue;
    const MeshShape other = with_last(mesh, axis);
    if (axes_within_hosts(other, hosts) > axes_within_hosts(mesh, hosts))
      advice.push_back(name + " is between hosts: --mesh " + text_of(other) + " keeps it within one");
  }
  advice.insert(advice.begin(), where);
  return advice;
}

}  // namespace dpbench
