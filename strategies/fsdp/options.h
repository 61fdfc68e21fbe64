// The --param parameters of sharding (strategies fsdp, zero2 and layout), parsed once, and values derived from them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"
#include "strategies/fsdp/storage.h"
#include "strategies/fsdp/unit_plan.h"

namespace dpbench::fsdp {

// zero2: gradients and optimizer state are sharded; fsdp: parameters too.
enum class Stage { zero2, fsdp };

// How a unit (parameters that are gathered together) is kept between its forward and its backward pass. on: it is
// freed. off: it stays gathered. parts: the ranks of a group keep a part each, together the whole unit. With
// reshard=shard, the groups are those of the mesh axis `shard`, and parameters are sharded over all ranks. With
// reshard=N, each group has N neighbouring ranks of the axis over which parameters are sharded.
enum class Reshard { on, off, parts };

struct Options {
  Stage stage = Stage::fsdp;
  int64_t blocks_per_unit = 1;
  // Number of units (groups of parameters) that are gathered ahead of the unit that computes. It limits the gathers in
  // flight.
  int64_t prefetch = 1;
  Reshard reshard = Reshard::on;
  std::optional<int64_t> group_size = {};  // N of reshard=N
  bool reduce_each_micro = true;           // true: sum gradients over ranks in every micro-batch, not only in the last
  bool find_unused = false;
  bool poison = false;
  std::optional<at::ScalarType> gathered = {}, reduced = {};
};

// Throws UsageError with the parameter's name for an invalid value. dtype: the dtype of the computation; nullopt if not
// known.
Options options_of(Stage stage, const Params& params, std::optional<at::ScalarType> dtype = {});

std::vector<ParamInfo> parameters(Stage stage);
std::vector<Variant> variants(Stage stage);
Settings settings(Stage stage);
void promise(Stage stage, StrategyInfo& info, const Params& params);
std::optional<int64_t> live_parameters(Stage stage, const TrafficQuery& query);
// Returns the mesh on which fsdp runs, for the mesh `asked` that the user gave. With reshard=N, the axis over which
// parameters are sharded gets parts of N ranks. If that is not possible, because N is not a proper divisor of the
// axis's number of ranks, the mesh stays as it is, and fsdp refuses N later.
MeshShape mesh_for(const MeshShape& asked, const Params& params);

// Returns the name of the mesh axis over which parameters are sharded. On a mesh of several axes with reshard=shard,
// that is world_axis, the name that stands for all ranks; otherwise "shard" if the mesh has this axis, else "dp".
std::string shard_axis(const MeshShape& mesh, const Options& options);
// Returns the name of the mesh axis on which all ranks store the same rows of each parameter; empty if there is none.
std::string replica_axis(const MeshShape& mesh, const Options& options);
// Returns the name of the mesh axis, or of the parts of an axis, whose ranks together keep a unit between its forward
// and its backward pass; empty unless the options have Reshard::parts.
std::string part_axis(const MeshShape& mesh, const Options& options);

// A forward or backward pass through one of this rank's stages. last_stage: true if the stage is the model's last one.
struct UnitPass {
  size_t stage = 0;  // index of the stage among this rank's stages
  bool backward = false, last_stage = false;
};

// The units of one rank and its passes through them in a step, for the traffic formula.
struct UnitShare {
  Axis shard, replicas;           // axes as in Storage; their groups are not used
  std::vector<Span> stages = {};  // blocks of this rank's stages
  std::vector<UnitPass> passes = {};
  int64_t parts = 1;  // number of parts of micro-batches in the step
  // Functions of a whole parameter. piece: returns this rank's piece of it. is_mine: true if one of these stages uses
  // the parameter. is_part: true if the strategy also sums the parameter's gradient over other mesh axes (see
  // Storage::parts).
  std::function<at::Tensor(const at::Tensor&)> piece = {};
  std::function<bool(const at::Tensor&)> is_mine = {}, is_part = {};
};
// Returns the traffic of a step's gathers and reductions of units.
std::vector<Traffic> traffic(const TrafficQuery& query, const Options& options, const UnitShare& share);

}  // namespace dpbench::fsdp
