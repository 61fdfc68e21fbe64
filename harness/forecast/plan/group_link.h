// The links between the ranks along one axis of a mesh, and the predicted times of collectives over these links.
#pragma once

#include <string>

#include "harness/forecast/network.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench::forecast {

class GroupLink {
 public:
  // slowdown: factor by which transfers within a host slow down, because ranks that share cores copy in turn.
  GroupLink(const MeshShape& mesh, const std::string& axis, const Network& network, double slowdown);

  int ranks() const { return ranks_; }
  // Returns the time of a collective; an allreduce uses the fastest algorithm. bytes: size of the whole tensor.
  double seconds(const std::string& op, double bytes) const;
  // between() returns the link between two positions on the axis, slowest() the link that limits a ring over all
  // positions: the one between hosts, if the axis spans several.
  const Link& between(int from, int to) const { return from / inside_ == to / inside_ ? intra_ : inter_; }
  const Link& slowest() const { return inside_ == ranks_ ? intra_ : inter_; }

 private:
  int ranks_ = 1;
  Network rings_;   // ring collectives: all ranks of a host send to other hosts at once, each in its own ring
  Network single_;  // other algorithms: one rank of each host sends to other hosts
  Link intra_, inter_;
  int inside_ = 1;  // ranks of this axis on one host
};

}  // namespace dpbench::forecast
