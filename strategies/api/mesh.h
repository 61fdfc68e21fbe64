// The mesh: all ranks as a grid with named axes, such as dp (data parallel) and tp (tensor parallel). A rank's group on
// an axis consists of the rank itself and the ranks with the same position on all other axes.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/api/backend.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench {

// Returns the name of a group of some ranks, such as "ranks 0,2".
std::string name_of_ranks(const std::vector<int>& ranks);
// Returns this rank's BackendSetup for the group of `ranks`, global ranks in ascending order. The ranks of a host stay
// consecutive within the group. world: the setup of the group of all ranks. prefix: the group's prefix in the store and
// its name in the calls that the backend notes.
BackendSetup setup_of_ranks(const std::vector<int>& ranks, const std::string& prefix, const BackendSetup& world);

struct Axis {
  std::string name;
  c10::intrusive_ptr<c10d::ProcessGroup> group = {};  // the process group of the axis; null if the axis has one rank
  int rank = 0;                                       // this rank's position on the axis
  int size = 1;
};

class Mesh {
 public:
  Mesh() = default;
  // Makes a mesh with one axis, which has all ranks of `group`. If `group` is null, the axis has one rank.
  Mesh(const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group);
  // Makes a mesh without process groups, for checks that need only the sizes of the axes.
  explicit Mesh(const MeshShape& shape);
  // Makes a mesh of all ranks of `world`. Each axis, and each axis divided into parts (AxisSize::part), gets new
  // process groups of the backend; a group of all ranks is `world` itself, and a single rank has no group. Collective:
  // every rank of the world calls it with the same axes. If two ranks pass different axes, it throws on every rank,
  // with both ranks' axes in the message. setup: the setup of `world`, except that its store has a prefix private to
  // this mesh.
  Mesh(const MeshShape& shape, const c10::intrusive_ptr<c10d::ProcessGroup>& world, const std::string& backend,
       const BackendSetup& setup);

  // The group of all ranks; null for a single process without a backend.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }
  // Returns the entry of axes() with this name. If there is none, returns an axis with one rank.
  const Axis& axis(const std::string& name) const;
  // Returns an entry for each axis. If an axis is divided into parts (AxisSize::part), a second entry, named by
  // part_name(), follows: the group of this rank's part.
  const std::vector<Axis>& axes() const { return axes_; }
  const MeshShape& shape() const { return shape_; }

  // Returns a copy of the mesh in which each process group is replaced by the result of replace(axis, group). For the
  // group of all ranks, the argument `axis` is the name of an axis that has all ranks, or world_axis if there is none.
  using Replace = std::function<c10::intrusive_ptr<c10d::ProcessGroup>(
      const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group)>;
  Mesh with_groups(const Replace& replace) const;

  // Returns a process group of some ranks of group(), in ascending order and among them this rank. Collective: each of
  // these ranks calls it. number: tells groups of the same ranks apart; the same ranks and number give the same
  // backend. Throws if the mesh has no function that makes such groups.
  using MakeSubgroup = std::function<c10::intrusive_ptr<c10d::ProcessGroup>(const std::vector<int>& ranks, int number)>;
  c10::intrusive_ptr<c10d::ProcessGroup> subgroup(const std::vector<int>& ranks, int number) const;
  void make_subgroups_by(MakeSubgroup make) { make_subgroup_ = std::move(make); }

 private:
  MeshShape shape_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<Axis> axes_;
  MakeSubgroup make_subgroup_;
};

}  // namespace dpbench
