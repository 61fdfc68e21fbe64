// The options of the class Layout, which implements several strategies.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "strategies/context/options.h"
#include "strategies/fsdp/options.h"
#include "strategies/pipeline/options.h"
#include "strategies/tensor/options.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench::layout {

struct Options {
  std::string name = "layout";  // the strategy's name, for messages
  pipeline::Options pipeline = {};
  tensor::Options tensor = {};
  context::Options context = {};
  // How parameters, gradients and optimizer state are sharded over the ranks of the mesh axis shard; nullopt: they are
  // not sharded.
  std::optional<fsdp::Options> sharded = {};
  bool shards_over_dp = false;  // if true, a mesh without the axis shard uses the axis dp in its place
};

// Turns off the options that have no effect on this mesh.
inline Options effective_on(const MeshShape& mesh, Options options) {
  if (size_of(mesh, "tp") == 1) options.tensor.sequence = false;
  if (size_of(mesh, "pp") == 1) options.pipeline.microbatches = 1;  // a single stage has no stage to overlap with
  return options;
}

}  // namespace dpbench::layout
