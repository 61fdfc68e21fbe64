// The mesh: all ranks as a grid with named axes, such as dp (data parallel) and tp (tensor parallel). Each axis gives a
// rank the group of ranks with which it differs in this axis only.
#pragma once

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/api/backend.h"

namespace dpbench {

struct Axis {
  std::string name;
  c10::intrusive_ptr<c10d::ProcessGroup> group = {};  // null if the axis has one rank
  int rank = 0;                                       // this rank's place on the axis
  int size = 1;
};

struct AxisSize {
  std::string name;
  int size = 1;
};

// Returns the global ranks of the groups of an axis, each in ascending order. The mesh is row-major: neighbouring ranks
// differ in the last axis.
std::vector<std::vector<int>> groups_of_axis(const std::vector<AxisSize>& axes, size_t axis);

class Mesh {
 public:
  // Makes a mesh with one axis, whose ranks are those of the group. Without a group it has one rank.
  Mesh(const std::string& axis, const c10::intrusive_ptr<c10d::ProcessGroup>& group);
  // Makes a mesh of all ranks of `world`, with a new group of the backend for each axis that is neither the whole world
  // nor a single rank. Collective: every rank of the world calls it with the same axes. Throws on every rank, with the
  // axes of both, if two ranks differ. setup: that of `world`, but its store has a prefix private to this mesh.
  Mesh(const std::vector<AxisSize>& axes, const c10::intrusive_ptr<c10d::ProcessGroup>& world,
       const std::string& backend, const BackendSetup& setup);

  // Throws UsageError, with the names of all axes, if there is no such axis.
  const Axis& axis(const std::string& name) const;
  const std::vector<Axis>& axes() const { return axes_; }

 private:
  std::vector<Axis> axes_;
};

}  // namespace dpbench
