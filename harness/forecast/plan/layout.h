// A layout: a mesh, a strategy and its options for training a gpt model.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/forecast/network.h"
#include "strategies/schedule/families/families.h"
#include "workloads/base/mesh_shape.h"
#include "workloads/gpt/footprint.h"

namespace dpbench::forecast {

inline constexpr const char* planned_workload = "gpt";  // the only workload that plan has formulas for
inline constexpr int64_t least_blocks = 3;  // blocks of a gpt model besides its layers: embedding, final norm and head

// How the ranks along the data axes dp and shard store tensors. replicated: each rank has all tensors. state: sharded
// optimizer state (ZeRO 1); gradients: gradients too (ZeRO 2); parameters: parameters too (ZeRO 3).
enum class Sharding { replicated, state, gradients, parameters };

// A strategy that `dpbench plan` knows, and how it stores and reduces tensors on the data axes.
struct PlannedStrategy {
  const char* name;
  Sharding sharding = Sharding::replicated;
  bool overlapped = false;    // true: gradients are reduced during the backward pass
  bool reduces_each = false;  // true: gradients are reduced in every micro-batch, not only in the last
};

namespace planned {
inline constexpr PlannedStrategy cpu{"cpu"}, gpu{"gpu"};
inline constexpr PlannedStrategy ddp{"ddp", Sharding::replicated, true};
inline constexpr PlannedStrategy zero1{"zero1", Sharding::state};
inline constexpr PlannedStrategy zero2{"zero2", Sharding::gradients, true, true};
inline constexpr PlannedStrategy fsdp{"fsdp", Sharding::parameters, true, true};
// The strategy `layout` shards parameters if its mesh has the axis shard.
inline constexpr PlannedStrategy layout{"layout"};
inline constexpr std::array all{cpu, gpu, ddp, zero1, zero2, fsdp, layout};

// Strategies of a single mesh axis. Plan treats them as the strategy `layout` on this axis.
inline constexpr std::array<std::string_view, 3> of_one_axis{"pp", "tp", "cp"};

// Returns how plan treats the strategy `name`: pp, tp and cp as `layout`. The result has an empty name if plan does not
// know the strategy.
inline PlannedStrategy named(const std::string& name) {
  if (std::ranges::count(of_one_axis, name) > 0) return layout;
  const auto found = std::ranges::find(all, name, &PlannedStrategy::name);
  return found == all.end() ? PlannedStrategy{""} : *found;
}
}  // namespace planned

struct Layout {
  std::string strategy = {};
  MeshShape mesh = {};  // mesh without axes of size 1
  Sharding sharding = Sharding::replicated;
  bool overlapped = false;        // true: gradients are reduced during the backward pass
  bool narrow = false;            // true: parameters are gathered and used in bfloat16
  bool narrow_gradients = false;  // true: gradients are reduced in bfloat16
  // true: all activations are in bfloat16, as in other systems; under autocast, some stay in float32
  bool narrow_activations = false;
  bool reshard = true;    // true: parameters gathered from shards are freed after the forward pass
  bool sequence = false;  // true: sequence parallelism, the option tp.sequence
  int64_t recompute = 0;
  const pipeline::Family* schedule = nullptr;  // pipeline schedule; null without the axis pp
  int stages = 1;                              // pipeline stages per rank
  std::vector<int64_t> stage_sizes = {};       // model blocks per stage; empty without pp
  int64_t micro_batches = 1;                   // micro-batches per step
  int64_t rows = 1;                            // samples per micro-batch

  int size(const std::string& axis) const { return size_of(mesh, axis); }
  // Returns the number of ranks that together store one copy of the sharded tensors.
  int shards() const {
    if (sharding == Sharding::replicated) return 1;
    return size("shard") > 1 ? size("shard") : size("dp");
  }
  // True if gradients are reduced in every micro-batch, not only in the last.
  bool reduces_each() const { return planned::named(strategy).reduces_each || narrow; }
  gpt::Cut cut() const { return {.tp = size("tp"), .sequence = sequence, .cp = size("cp")}; }
};

// Returns the mesh without axes of size 1.
MeshShape without_single(const MeshShape& mesh);
// Describes the layout in a few words, such as "layout shard=8,tp=8, 4 x 2 samples, recompute".
std::string text_of(const Layout& layout);
// Returns the flags of `dpbench run` for this layout, without the model. threads: threads per CPU device; 0: GPUs.
std::string flags_of(const Layout& layout, int threads);
// Returns the flags of `dpbench check` for a small version of the layout: the same axes with two ranks each.
std::string check_flags_of(const Layout& layout);

// Returns the number of model blocks in each pipeline stage, balanced by the FLOP of the blocks' forward passes.
std::vector<int64_t> spread_blocks(const gpt::Shape& shape, const Layout& layout);

struct Space {
  gpt::Shape shape;
  gpt::Precision precision = gpt::Precision::float32;
  int devices = 1, host_size = 0;
  bool gpus = false;
  int64_t batch = 1;  // samples per step, over all devices
};

// Calls `take` for each candidate layout. Not every layout is a candidate: the sizes of micro-batches, for example, are
// powers of two or the whole batch of a rank. Ranks along the axis tp are always on one host.
void each_layout(const Space& space, const std::function<void(const Layout&)>& take);

}  // namespace dpbench::forecast
