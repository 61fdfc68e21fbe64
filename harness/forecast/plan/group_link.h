// The links between the ranks along one axis of a mesh, and the predicted times of collectives over these links.
#pragma once

#include <string>

#include "harness/forecast/network.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench::forecast {

class GroupLink {
 public:
  // slowdown: factor by which transfers within a host slow down if its ranks share cores, because the ranks then copy
  // one after another.
  GroupLink(const MeshShape& mesh, const std::string& axis, const Network& network, double slowdown);

  int ranks() const { return ranks_; }
  // Returns the time of a collective; an allreduce uses the fastest algorithm. bytes: size of the whole tensor.
  double seconds(const std::string& op, double bytes) const;
  // Returns the link between the ranks at two positions on the axis.
  const Link& between(int from, int to) const {
    return from / network_.host_size == to / network_.host_size ? network_.intra : network_.inter;
  }
  // Returns the slowest link of a ring over the axis: the link between hosts, if its ranks are on several hosts.
  const Link& slowest() const { return network_.host_size == ranks_ ? network_.intra : network_.inter; }

 private:
  int ranks_ = 1;
  Network network_;  // host_size: number of ranks of the mesh axis on one host
};

}  // namespace dpbench::forecast
