#include "harness/forecast/plan/group_link.h"

#include <algorithm>

namespace dpbench::forecast {
namespace {

// Returns the difference between the numbers of two adjacent ranks on an axis of the mesh.
int stride_of(const MeshShape& mesh, const std::string& axis) {
  int stride = 1;
  for (auto one = mesh.rbegin(); one != mesh.rend() && one->name != axis; ++one) stride *= one->size;
  return stride;
}

}  // namespace

GroupLink::GroupLink(const MeshShape& mesh, const std::string& axis, const Network& network, double slowdown)
    : ranks_(size_of(mesh, axis)), network_(network.slowed_inside(slowdown)) {
  const int stride = stride_of(mesh, axis), host = network.host_size > 0 ? network.host_size : stride * ranks_;
  network_.host_size = std::clamp(host / stride, 1, ranks_);
}

double GroupLink::seconds(const std::string& op, double bytes) const {
  return collective_seconds(op, fastest_algorithm(op, ranks_, bytes, network_), ranks_, bytes, network_);
}

}  // namespace dpbench::forecast
