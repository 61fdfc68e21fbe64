// A layout: the mesh, the strategy and the options with which a gpt may be trained.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/forecast/network.h"
#include "strategies/schedule/families/families.h"
#include "workloads/base/mesh_shape.h"
#include "workloads/gpt/footprint.h"

namespace dpbench::forecast {

// How the ranks of the data axes, dp and shard, store tensors. replicated: each has all of them. state: sharded
// optimizer state (ZeRO 1); gradients: gradients too (ZeRO 2); parameters: parameters too (ZeRO 3).
enum class Sharding { replicated, state, gradients, parameters };

struct Layout {
  std::string strategy = {};  // that runs it
  MeshShape mesh = {};        // without axes of one rank
  Sharding sharding = Sharding::replicated;
  bool overlapped = false;        // gradients are reduced during the backward pass
  bool narrow = false;            // parameters are gathered and used in bfloat16
  bool narrow_gradients = false;  // gradients are reduced in bfloat16
  bool reshard = true;            // with sharded parameters: free a unit after its forward pass
  bool sequence = false;          // tp.sequence
  int64_t recompute = 0;
  const pipeline::Family* schedule = nullptr;  // none without the axis pp
  int stages = 1;                              // of each rank
  std::vector<int64_t> stage_sizes = {};       // blocks of each stage; empty without the axis pp
  int64_t micro_batches = 1;                   // of a step
  int64_t rows = 1;                            // of a micro-batch

  int size(const std::string& axis) const { return size_of(mesh, axis); }
  // Number of ranks that together store the sharded tensors once.
  int shards() const {
    if (sharding == Sharding::replicated) return 1;
    return size("shard") > 1 ? size("shard") : size("dp");
  }
  // True if gradients are reduced in every micro-batch, not only in the last.
  bool reduces_each() const { return strategy == "fsdp" || strategy == "zero2" || narrow; }
  gpt::Cut cut() const { return {.tp = size("tp"), .sequence = sequence, .cp = size("cp")}; }
};

// Returns the mesh without axes of one rank.
MeshShape without_single(const MeshShape& mesh);
// Describes the layout in a few words, such as "layout shard=8,tp=8, 4 x 2 rows, recompute".
std::string text_of(const Layout& layout);
// Returns the flags of `dpbench run` for this layout, without the model. threads: of a CPU device; 0: on GPUs.
std::string flags_of(const Layout& layout, int threads);
// Returns the flags of `dpbench check` for a layout with the same axes, of two ranks each.
std::string check_flags_of(const Layout& layout);

// Returns the number of blocks of each stage of a pipeline, spread by the operations of their forward pass.
std::vector<int64_t> spread_blocks(const gpt::Shape& shape, const Layout& layout);

struct Space {
  gpt::Shape shape;
  gpt::Precision precision = gpt::Precision::float32;
  int devices = 1, host_size = 0;
  bool gpus = false;
  int64_t batch = 1;  // rows of a step, on all devices
};

// Calls `take` for each layout that the strategies can run. tp stays within a host.
void each_layout(const Space& space, const std::function<void(const Layout&)>& take);

}  // namespace dpbench::forecast
