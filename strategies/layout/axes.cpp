#include "strategies/layout/axes.h"

#include "workloads/base/error.h"

namespace dpbench::layout {
namespace {

Axis all_ranks(const Mesh& mesh) {
  const auto& group = mesh.group();
  if (!group) return {.name = world_axis, .size = ranks_of(mesh.shape())};
  return {.name = world_axis, .group = group, .rank = group->getRank(), .size = group->getSize()};
}

// Throws UsageError unless the option reshard=N fits the mesh: N (`size`) must divide the ranks over which parameters
// are sharded into several groups.
void require_groups(int64_t size, const Axis& shard, const std::string& strategy) {
  const std::string what = strategy + ".reshard=" + std::to_string(size),
                    ranks = "the " + std::to_string(shard.size) + " ranks of the axis " + shard.name;
  if (size == shard.size) throw UsageError(what + ": the only group would have " + ranks + ". Use reshard=on");
  if (shard.size % size != 0) throw UsageError(what + " does not divide " + ranks + " into groups");
}

}  // namespace

Axes::Axes(const Mesh& mesh)
    : world(all_ranks(mesh)),
      replicas(mesh.axis("dp")),
      cp(mesh.axis("cp")),
      pp(mesh.axis("pp")),
      tp(mesh.axis("tp")),
      ep(mesh.axis("ep")) {}

bool Axes::choose_shard(const Mesh& mesh, const Options& options) {
  const fsdp::Options& sharded = *options.sharded;
  const bool no_axis = mesh.axis("shard").size == 1;
  if (sharded.reshard == fsdp::Reshard::parts && !sharded.group_size && world.size > 1 && no_axis)
    throw UsageError(options.name + ".reshard=shard needs a mesh with an axis shard, such as --mesh dp=2,shard=2");
  if (options.shards_over_dp) {
    const std::string name = fsdp::shard_axis(mesh.shape(), sharded);
    shard = name == world_axis ? world : mesh.axis(name);
    if (sharded.group_size && shard.size > 1) require_groups(*sharded.group_size, shard, options.name);
    between = mesh.axis(fsdp::part_axis(mesh.shape(), sharded));
    replicas = mesh.axis(fsdp::replica_axis(mesh.shape(), sharded));
  } else if (no_axis && !sharded.gathered && !sharded.reduced) {
    if (sharded.find_unused || sharded.reduce_each_micro)
      throw UsageError(options.name + "." + (sharded.find_unused ? "find_unused=on" : "sync=each") +
                       " needs a mesh with an axis shard");
    return false;
  } else {
    shard = mesh.axis("shard");
  }
  return true;
}

}  // namespace dpbench::layout
