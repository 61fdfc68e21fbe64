// The collectives that dpbench-micro measures: their tensors, calls, exact results and bandwidths.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "harness/micro/inputs.h"

namespace dpbench::micro {

// One rank's call of a collective.
struct Call {
  c10::intrusive_ptr<c10d::Backend> backend;
  at::Tensor input, output;  // tensors of the call, which share memory if it is made in place
  c10d::ReduceOp reduction;
  std::vector<at::Tensor> parts{};  // gather and scatter: each rank's part of the whole tensor
};

// The shapes of a collective's tensors on a rank. one: a single tensor is input and output. two: an input and an output
// of equal size. part_to_whole: the output is `world` times as large as the input. whole_to_part: the input is `world`
// times as large as the output. Only part_to_whole and whole_to_part are measured both in place and out of place.
// part_to_root, root_to_part: as part_to_whole and whole_to_part, but only the root has the larger tensor.
enum class Roles { one, two, part_to_whole, whole_to_part, part_to_root, root_to_part };

// In new_call() and `expected`, the parameter `all` is the number of elements of the whole tensor.
struct Collective {
  CollectiveName name;
  Roles roles;
  bool in_parts;  // true: the whole tensor consists of one part for each rank
  bool reduces;
  double (*bus_share)(double world);
  void (*start_and_wait)(Call& call);
  // Returns a rank's correct output; an undefined tensor if the rank has none.
  at::Tensor (*expected)(const Inputs& inputs, int64_t all, int rank);

  bool has_in_place() const { return roles == Roles::part_to_whole || roles == Roles::whole_to_part; }
};

const Collective& collective_of(CollectiveName name);

// Returns a call with new tensors on the device.
Call new_call(const Collective& collective, const Inputs& inputs, int64_t all, bool in_place,
              const c10::intrusive_ptr<c10d::Backend>& backend, at::Device device);

}  // namespace dpbench::micro
