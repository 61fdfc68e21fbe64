#include "strategies/api/mesh.h"

#include <algorithm>
#include <stdexcept>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "workloads/base/error.h"

namespace dpbench {
namespace {

std::string text_of(const std::vector<AxisSize>& axes) {
  std::string text;
  for (const AxisSize& axis : axes) text += (text.empty() ? "" : " x ") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

void require_grid(const std::vector<AxisSize>& axes, int world) {
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

// Throws the same error on every rank unless all ranks make the same mesh. Ranks that make different ones would wait
// for each other in different groups.
void require_same_mesh(const std::vector<AxisSize>& axes, const BackendSetup& setup) {
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

// Returns the setup of this rank in the group of these ranks. Ranks of a host stay neighbours.
BackendSetup within(const std::vector<int>& ranks, const std::string& prefix, const BackendSetup& world) {
  BackendSetup setup = world;
  const auto before = [&](int rank) {
    return static_cast<int>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin());
  };
  const int first_of_host = world.rank - world.local_rank;
  setup.store = c10::make_intrusive<c10d::PrefixStore>(prefix, world.store);
  setup.ranks.clear();
  for (const int rank : ranks) setup.ranks.push_back(world.global(rank));
  setup.rank = before(world.rank);
  setup.world = static_cast<int>(ranks.size());
  setup.local_rank = setup.rank - before(first_of_host);
  setup.local_world = before(first_of_host + world.local_world) - before(first_of_host);
  return setup;
}

}  // namespace

std::vector<std::vector<int>> groups_of_axis(const std::vector<AxisSize>& axes, size_t axis) {
  int world = 1, stride = 1;
  for (const AxisSize& one : axes) world *= one.size;
  for (size_t i = axis + 1; i < axes.size(); ++i) stride *= axes[i].size;
  const int size = axes.at(axis).size;
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < world; ++rank) {
    if (rank / stride % size != 0) continue;
    std::vector<int>& group = groups.emplace_back();
    for (int i = 0; i < size; ++i) group.push_back(rank + i * stride);
  }
  return groups;
}

Mesh::Mesh(const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  axes_.push_back({.name = axis});
  if (!group || group->getSize() == 1) return;
  axes_[0].group = group;
  axes_[0].rank = group->getRank();
  axes_[0].size = group->getSize();
}

Mesh::Mesh(const std::vector<AxisSize>& axes, const c10::intrusive_ptr<c10d::ProcessGroup>& world,
           const std::string& backend, const BackendSetup& setup) {
  require_same_mesh(axes, setup);
  require_grid(axes, setup.world);
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = axes_.emplace_back(Axis{.name = axes[i].name});
    if (axes[i].size == 1) continue;
    const auto groups = groups_of_axis(axes, i);
    for (size_t g = 0; g < groups.size(); ++g) {
      const auto mine = std::find(groups[g].begin(), groups[g].end(), setup.rank);
      if (mine == groups[g].end()) continue;
      axis.rank = static_cast<int>(mine - groups[g].begin());
      axis.size = axes[i].size;
      const std::string prefix = axis.name + "/" + std::to_string(g);
      axis.group = axis.size == setup.world ? world : make_process_group(backend, within(groups[g], prefix, setup));
    }
  }
}

const Axis& Mesh::axis(const std::string& name) const {
  std::string names;
  for (const Axis& axis : axes_) {
    if (axis.name == name) return axis;
    names += (names.empty() ? "" : ", ") + axis.name;
  }
  throw UsageError("the mesh has no axis " + name + "; it has: " + names);
}

}  // namespace dpbench
