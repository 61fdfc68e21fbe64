// The --param parameters of sharding (strategies fsdp, zero2 and layout), parsed once, and values derived from them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"
#include "strategies/fsdp/storage.h"

namespace dpbench::fsdp {

// zero2: gradients and optimizer state are sharded; fsdp: parameters too.
enum class Stage { zero2, fsdp };

// How a unit (parameters that are gathered together) is kept between its forward and its backward pass. on: it is
// freed. off: it stays gathered. parts: the ranks of a group keep a part each, together the whole unit. With
// reshard=shard, the groups are those of the mesh axis `shard`, and parameters are sharded over all ranks. With
// reshard=N, they have N neighbouring ranks of the axis over which parameters are sharded.
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
std::optional<std::vector<Traffic>> traffic(Stage stage, const TrafficQuery& query);
std::optional<int64_t> live_parameters(Stage stage, const TrafficQuery& query);
// Returns the mesh on which fsdp runs if the user asked for the mesh `asked`. With reshard=N, the axis over which
// parameters are sharded has parts of N ranks, unless N does not divide the axis into several parts: fsdp then refuses
// N.
MeshShape mesh_for(const MeshShape& asked, const Params& params);

// Returns the name of the mesh axis over which parameters are sharded: the name that stands for all ranks, on a mesh of
// several axes with reshard=shard; else "shard" if the mesh has that axis, else "dp".
std::string shard_axis(const MeshShape& mesh, const Options& options);
// Returns the name of the mesh axis on which all ranks store the same rows of each parameter; empty if there is none.
std::string replica_axis(const MeshShape& mesh, const Options& options);
// Returns the name of the mesh axis, or of the parts of an axis, whose ranks together keep a unit between its forward
// and its backward pass; empty unless the options have Reshard::parts.
std::string part_axis(const MeshShape& mesh, const Options& options);

}  // namespace dpbench::fsdp
