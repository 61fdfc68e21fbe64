// The mesh axes of a layout. An axis that the mesh does not have has one rank.
#pragma once

#include "strategies/api/mesh.h"
#include "strategies/layout/options.h"

namespace dpbench::layout {

struct Axes {
  explicit Axes(const Mesh& mesh);
  // Sets `shard`, `between` and `replicas`, the axes over which parameters are sharded, kept in parts and replicated.
  // Returns false if parameters need not be divided into units (parameters that are gathered together), because the
  // mesh has no axis to shard over and the options gather and reduce are not used. Throws UsageError if an option needs
  // an axis that the mesh does not have.
  bool choose_shard(const Mesh& mesh, const Options& options);

  Axis world;  // the axis that consists of all ranks
  // The axis whose ranks store different rows of each parameter; has one rank until choose_shard() sets it.
  Axis shard;
  // The axis whose ranks together keep a unit between its forward and its backward pass. It has one rank if no unit is
  // kept in this way.
  Axis between;
  Axis replicas;  // the axis whose ranks store the same tensors and train on different samples
  Axis cp, pp, tp, ep;
};

}  // namespace dpbench::layout
