// The links between the ranks of one axis of a mesh, and the times of collectives and messages over them.
#pragma once

#include <string>

#include "harness/forecast/network.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench::forecast {

class GroupLink {
 public:
  // slowdown: factor by which copies slow down, because ranks share cores.
  GroupLink(const MeshShape& mesh, const std::string& axis, const Network& network, double slowdown);

  int ranks() const { return ranks_; }
  // Returns the time of a collective; an allreduce uses the fastest algorithm. bytes: size of the whole tensor.
  double seconds(const std::string& op, double bytes) const;
  // Returns the link between two places on the axis, and the slowest link of a ring of all places.
  const Link& between(int from, int to) const { return from / inside_ == to / inside_ ? intra_ : inter_; }
  const Link& slowest() const { return inside_ == ranks_ ? intra_ : inter_; }

 private:
  int ranks_ = 1;
  Network rings_;   // all devices of a host send at once, so that a host's rate is that of all its devices together
  Network single_;  // each device sends for itself
  Link intra_, inter_;
  int inside_ = 1;  // ranks of the group on one host
};

}  // namespace dpbench::forecast
