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
    : ranks_(size_of(mesh, axis)), intra_(network.intra), inter_(network.inter) {
  intra_.bytes_per_s /= slowdown;
  const int stride = stride_of(mesh, axis), host = network.host_size > 0 ? network.host_size : stride * ranks_;
  inside_ = std::clamp(host / stride, 1, ranks_);
  if (inside_ == ranks_) {
    rings_ = single_ = {intra_, intra_, 0};
  } else if (inside_ == 1) {
    rings_ = single_ = {inter_, inter_, 0};
  } else {
    single_ = {intra_, inter_, inside_};
    rings_ = single_;
    rings_.inter.bytes_per_s *= inside_;
  }
}

double GroupLink::seconds(const std::string& op, double bytes) const {
  const double ring = collective_seconds(op, Algorithm::ring, ranks_, bytes, rings_);
  if (op != "allreduce") return ring;
  return std::min({ring, collective_seconds(op, Algorithm::tree, ranks_, bytes, single_),
                   collective_seconds(op, Algorithm::hierarchical, ranks_, bytes, single_)});
}

}  // namespace dpbench::forecast
