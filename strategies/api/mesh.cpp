#include "strategies/api/mesh.h"

#include <algorithm>
#include <stdexcept>

#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

void require_grid(const MeshShape& axes, int world) {
  int64_t ranks = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].size < 1) throw UsageError("mesh " + text_of(axes) + ": the axis " + axes[i].name + " has no ranks");
    for (size_t j = 0; j < i; ++j)
      if (axes[i].name == axes[j].name)
        throw UsageError("mesh " + text_of(axes) + ": two axes have the name " + axes[i].name);
    ranks *= axes[i].size;
  }
  if (ranks != world)
    throw UsageError("mesh " + text_of(axes) + " has " + std::to_string(ranks) + " ranks, but there are " +
                     std::to_string(world));
}

// Throws the same error on every rank unless all ranks make the same mesh. Ranks with different meshes would wait for
// each other in different groups.
void require_same_mesh(const MeshShape& axes, const BackendSetup& setup) {
  const std::string mine = text_of(axes);
  const auto key = [](int rank) { return "axes/" + std::to_string(rank); };
  setup.store->set(key(setup.rank), std::vector<uint8_t>(mine.begin(), mine.end()));
  std::string first;
  for (int rank = 0; rank < setup.world; ++rank) {
    setup.store->wait({key(rank)}, setup.timeout);
    const std::string text = setup.store->get_to_str(key(rank));
    if (rank == 0) first = text;
    if (text != first)
      throw std::runtime_error("ranks make different meshes: rank 0 " + first + ", rank " + std::to_string(rank) + " " +
                               text);
  }
}

}  // namespace

std::string name_of_ranks(const std::vector<int>& ranks) { return c10::str("ranks ", c10::Join(",", ranks)); }

BackendSetup setup_of_ranks(const std::vector<int>& ranks, const std::string& prefix, const BackendSetup& world) {
  BackendSetup setup = world;
  const auto before = [&](int rank) {
    return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
  };
  const int first_of_host = world.rank - world.local_rank;
  setup.store = c10::make_intrusive<c10d::PrefixStore>(prefix, world.store);
  if (world.note)
    setup.note = [note = world.note, group = prefix](StartedCall call) {
      call.group = group;
      note(call);
    };
  setup.ranks.clear();
  for (const int rank : ranks) setup.ranks.push_back(world.global(rank));
  setup.rank = before(world.rank);
  setup.world = static_cast<int>(ranks.size());
  setup.local_rank = setup.rank - before(first_of_host);
  setup.local_world = before(first_of_host + world.local_world) - before(first_of_host);
  return setup;
}

Mesh::Mesh(const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group)
    : shape_{{axis, group ? group->getSize() : 1}}, group_(group) {
  axes_.push_back({.name = axis});
  if (!group || group->getSize() == 1) return;
  axes_[0].group = group;
  axes_[0].rank = group->getRank();
  axes_[0].size = group->getSize();
}

Mesh::Mesh(const MeshShape& shape) : shape_(shape) {
  for (const NamedGroups& one : named_groups(shape))
    axes_.push_back({.name = one.name, .size = static_cast<int>(one.groups.front().size())});
}

Mesh::Mesh(const MeshShape& shape, const c10::intrusive_ptr<c10d::ProcessGroup>& world, const std::string& backend,
           const BackendSetup& setup)
    : shape_(shape), group_(world) {
  require_same_mesh(shape, setup);
  require_grid(shape, setup.world);
  for (const NamedGroups& one : named_groups(shape)) {
    Axis& axis = axes_.emplace_back(Axis{.name = one.name});
    for (size_t g = 0; g < one.groups.size(); ++g) {
      const std::vector<int>& ranks = one.groups[g];
      const auto mine = std::find(ranks.begin(), ranks.end(), setup.rank);
      if (mine == ranks.end() || ranks.size() == 1) continue;
      axis.rank = static_cast<int>(mine - ranks.begin());
      axis.size = static_cast<int>(ranks.size());
      const std::string prefix = text_of(shape) + "/" + axis.name + "/" + std::to_string(g);
      axis.group = axis.size == setup.world ? world : make_process_group(backend, setup_of_ranks(ranks, prefix, setup));
    }
  }
}

const Axis& Mesh::axis(const std::string& name) const {
  static const Axis single;
  for (const Axis& axis : axes_)
    if (axis.name == name) return axis;
  return single;
}

Mesh Mesh::with_groups(const Replace& replace) const {
  Mesh mesh = *this;
  if (!group_) return mesh;
  const auto whole = std::ranges::find(axes_, group_, &Axis::group);
  mesh.group_ = replace(whole == axes_.end() ? axes_.size() == 1 ? axes_[0].name : world_axis : whole->name, group_);
  for (Axis& axis : mesh.axes_)
    if (axis.group) axis.group = axis.group == group_ ? mesh.group_ : replace(axis.name, axis.group);
  return mesh;
}

c10::intrusive_ptr<c10d::ProcessGroup> Mesh::subgroup(const std::vector<int>& ranks, int number) const {
  check(static_cast<bool>(make_subgroup_), "this mesh makes no process groups beside those of its axes");
  return make_subgroup_(ranks, number);
}

}  // namespace dpbench
