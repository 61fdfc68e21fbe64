// The shape of a mesh: all ranks as a grid with named axes, such as dp=2,tp=2. Does not depend on torch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/base/error.h"
#include "workloads/base/number.h"

namespace dpbench {

struct AxisSize {
  std::string name;
  int size = 1;
  // Number of neighbouring ranks in each part of the axis, if a strategy also needs groups within the axis. The number
  // divides `size`; 1: the axis has no parts.
  int part = 1;

  friend bool operator==(const AxisSize&, const AxisSize&) = default;
};
using MeshShape = std::vector<AxisSize>;

// Without the flag --mesh, all ranks lie on this axis.
inline constexpr const char* default_axis = "dp";
// Name that stands for all ranks of a mesh of several axes, where a function or a report expects the name of an axis.
inline constexpr const char* world_axis = "world";

// An axis that the flag --mesh accepts, and its properties.
struct KnownAxis {
  const char* name;
  const char* summary;
  bool data = false;         // true if ranks at different positions on this axis train on different samples
  bool stores_rows = false;  // true if each position on this axis stores only some rows of each parameter
  // True if each position on this axis computes a part of each layer, which then may have no experts.
  bool cuts_layers = false;
  // True if layers are divided by cutting their parameters; the sequence may then be cut between these layers.
  bool cuts_tensors = false;
  bool cuts_sequence = false;  // true if layers are divided by cutting the sequence, which then is cut in all layers
  bool cuts_experts = false;   // true if each position on this axis stores only some experts of each layer
};

inline const std::vector<KnownAxis>& known_axes() {
  static const std::vector<KnownAxis> axes = {
      {.name = default_axis,
       .summary = "data parallel: each place trains on its own samples, with all parameters",
       .data = true},
      {.name = "shard",
       .summary = "sharded data parallel: each place trains on its own samples and stores a part of each parameter",
       .data = true,
       .stores_rows = true},
      {.name = "cp",
       .summary = "context parallel: each place has a part of the sequence",
       .cuts_layers = true,
       .cuts_sequence = true},
      {.name = "ep",
       .summary = "expert parallel: each place trains on its own samples and stores some experts",
       .data = true,
       .cuts_experts = true},
      {.name = "pp", .summary = "pipeline parallel: each place has some of the model's blocks"},
      {.name = "tp",
       .summary = "tensor parallel: each place has a part of each layer",
       .cuts_layers = true,
       .cuts_tensors = true}};
  return axes;
}

namespace mesh_text {

inline constexpr int64_t most_ranks = 65536;

[[noreturn]] inline void refuse_mesh(const std::string& text, const std::string& why) {
  throw UsageError("mesh " + text + ": " + why);
}

inline const KnownAxis* known_axis(const std::string& name) {
  const auto found = std::ranges::find(known_axes(), name, &KnownAxis::name);
  return found == known_axes().end() ? nullptr : &*found;
}

inline AxisSize parse_axis(const std::string& part, const std::string& text) {
  const size_t equals = part.find('=');
  if (equals == std::string::npos) refuse_mesh(text, "'" + part + "' is not AXIS=RANKS, such as dp=2");
  AxisSize axis{.name = part.substr(0, equals), .size = 0};
  if (!known_axis(axis.name)) {
    std::string names;
    for (const KnownAxis& known : known_axes()) names += std::string(names.empty() ? "" : ", ") + known.name;
    refuse_mesh(text, "there is no axis '" + axis.name + "'; the axes are " + names);
  }
  axis.size = parse_number<int>(std::string_view(part).substr(equals + 1)).value_or(0);
  if (axis.size < 1) refuse_mesh(text, axis.name + " needs a number of ranks, 1 or more");
  return axis;
}

// Returns a rank's position on an axis.
inline int place_on(const MeshShape& shape, size_t axis, int rank) {
  for (size_t i = axis + 1; i < shape.size(); ++i) rank /= shape[i].size;
  return rank % shape[axis].size;
}

}  // namespace mesh_text

// Returns the number of ranks on an axis; 1 if the mesh does not have it.
inline int size_of(const MeshShape& shape, const std::string& name) {
  for (const AxisSize& axis : shape)
    if (axis.name == name) return axis.size;
  return 1;
}

// Returns true if --mesh accepts an axis with this name and the given property is true for it. property: a member of
// KnownAxis, such as &KnownAxis::cuts_layers.
inline bool axis_has(bool KnownAxis::* property, const std::string& name) {
  const KnownAxis* axis = mesh_text::known_axis(name);
  return axis && axis->*property;
}

// Returns the number of ranks on all axes for which the given property is true; 1 if the mesh has none. property: a
// member of KnownAxis, such as &KnownAxis::data.
inline int size_of(const MeshShape& shape, bool KnownAxis::* property) {
  int ranks = 1;
  for (const AxisSize& axis : shape) ranks *= axis_has(property, axis.name) ? axis.size : 1;
  return ranks;
}

// Returns a rank's position on an axis; 0 if the mesh does not have it.
inline int place_on(const MeshShape& shape, const std::string& name, int rank) {
  const auto axis = std::ranges::find(shape, name, &AxisSize::name);
  return axis == shape.end() ? 0 : mesh_text::place_on(shape, static_cast<size_t>(axis - shape.begin()), rank);
}

// Which samples a rank trains on: those of replica number `replica` of `replicas`. The number depends only on the
// rank's positions on those axes whose ranks train on different samples.
struct DataPlace {
  int replica = 0, replicas = 1;
};

// Returns the shape that a text such as "dp=2,tp=2" describes, without axes of one rank. Throws UsageError for an
// unknown axis (naming the known ones), for an axis named twice, for too many ranks, and for any other text that is not
// a mesh.
inline MeshShape parse_mesh(const std::string& text) {
  MeshShape shape;
  if (text.empty()) return shape;
  std::vector<std::string> seen;
  int64_t ranks = 1;
  for (size_t from = 0; from <= text.size();) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const AxisSize axis = mesh_text::parse_axis(text.substr(from, comma - from), text);
    if (std::ranges::count(seen, axis.name)) mesh_text::refuse_mesh(text, "the axis " + axis.name + " is named twice");
    seen.push_back(axis.name);
    ranks *= axis.size;
    if (ranks > mesh_text::most_ranks)
      mesh_text::refuse_mesh(text, "more than " + std::to_string(mesh_text::most_ranks) + " ranks");
    if (axis.size > 1) shape.push_back(axis);
    from = comma + 1;
  }
  return shape;
}

// Returns the shape as text; "shard=4/2" has parts of two ranks, which parse_mesh() does not accept.
inline std::string text_of(const MeshShape& shape) {
  std::string text;
  for (const AxisSize& axis : shape) {
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
    if (axis.part > 1) text.append("/").append(std::to_string(axis.part));
  }
  return text;
}

// True if the mesh has no axis other than dp, as without the flag --mesh.
inline bool is_plain(const MeshShape& shape) {
  return shape.empty() || (shape.size() == 1 && shape[0].name == default_axis);
}

inline int ranks_of(const MeshShape& shape) {
  int ranks = 1;
  for (const AxisSize& axis : shape) ranks *= axis.size;
  return ranks;
}

// Returns the number of a rank's replica, which determines the rank's samples. A mesh without axes stands for `world`
// ranks on the axis dp.
inline DataPlace data_place(const MeshShape& shape, int world, int rank) {
  if (is_plain(shape)) return {rank, world};
  DataPlace place;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!axis_has(&KnownAxis::data, shape[i].name)) continue;
    place.replica = place.replica * shape[i].size + mesh_text::place_on(shape, i, rank);
    place.replicas *= shape[i].size;
  }
  return place;
}

// Returns the process groups of an axis, as lists of global ranks in ascending order. The ranks of a group differ only
// in their position on the axis. The mesh is row-major: consecutive ranks differ in the last axis.
inline std::vector<std::vector<int>> groups_of_axis(const MeshShape& shape, size_t axis) {
  int stride = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) stride *= shape[i].size;
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < ranks_of(shape); ++rank) {
    if (mesh_text::place_on(shape, axis, rank) != 0) continue;
    std::vector<int>& group = groups.emplace_back();
    for (int i = 0; i < shape.at(axis).size; ++i) group.push_back(rank + i * stride);
  }
  return groups;
}

// Returns the name of the parts of an axis, such as "shard/2".
inline std::string part_name(const std::string& axis, int64_t part) { return axis + "/" + std::to_string(part); }

// Process groups with the same name, as lists of global ranks in ascending order.
struct NamedGroups {
  std::string name;
  std::vector<std::vector<int>> groups;
};

// Returns the process groups of each axis, and after them those of its parts if it has any.
inline std::vector<NamedGroups> named_groups(const MeshShape& shape) {
  std::vector<NamedGroups> all;
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto groups = groups_of_axis(shape, i);
    all.push_back({shape[i].name, groups});
    if (shape[i].part == 1) continue;
    NamedGroups& parts = all.emplace_back(NamedGroups{part_name(shape[i].name, shape[i].part), {}});
    for (const std::vector<int>& group : groups)
      for (auto first = group.begin(); first != group.end(); first += shape[i].part)
        parts.groups.emplace_back(first, first + shape[i].part);
  }
  return all;
}

// Returns a rank's position on each axis, such as "dp=1,tp=0".
inline std::string coordinates(const MeshShape& shape, int rank) {
  MeshShape places;
  for (size_t i = 0; i < shape.size(); ++i) places.push_back({shape[i].name, mesh_text::place_on(shape, i, rank)});
  return text_of(places);
}

}  // namespace dpbench
