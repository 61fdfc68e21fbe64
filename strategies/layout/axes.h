// The mesh axes of a layout. An axis that the mesh does not have has one rank.
#pragma once

#include "strategies/api/mesh.h"
#include "strategies/layout/options.h"

namespace dpbench::layout {

struct Axes {
  explicit Axes(const Mesh& mesh);
  // Sets the axes over which parameters are sharded, kept in parts and replicated. Returns false if neither the mesh
  // nor an option (gather, reduce) needs units (parameters that are gathered together). Throws UsageError if an option
  // needs an axis that the mesh does not have.
  bool choose_shard(const Mesh& mesh, const Options& options);

  Axis world;     // axis of all ranks
  Axis shard;     // ranks that store different rows of each parameter; one rank until choose_shard()
  Axis between;   // ranks that together keep a unit between its forward and its backward pass; one rank: none do
  Axis replicas;  // ranks that store the same tensors and train on different samples
  Axis cp, pp, tp, ep;
};

}  // namespace dpbench::layout
