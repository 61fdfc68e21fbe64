// A strategy's formula of its traffic: the bytes that a rank passes to the collectives of a step. The checks compare it
// with the counted bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/named_tensors.h"
#include "strategies/api/params.h"
#include "workloads/api/workload.h"
#include "workloads/base/mesh_shape.h"

namespace dpbench {

struct Traffic {
  std::string axis, op;  // of the mesh; "allreduce", "allgather", "reduce_scatter", ...
  int64_t bytes = 0;     // of this rank's input tensors; in a scatter or recv, of its output tensors
  // True if each rank's bytes depend on the samples, but not their sum over all ranks: `bytes` add up to it.
  bool sum_only = false;
};

// Inputs of a formula.
struct TrafficQuery {
  const Model& model;    // as the workload makes it
  at::ScalarType dtype;  // Setup::dtype
  const Params& params;
  const MeshShape& mesh;
  int rank = 0;
  int64_t step = 0, accumulate = 1;
  int64_t taken = 0;    // steps that the strategy has taken since its construction
  bool clips = false;   // true if the global norm is clipped
  int64_t samples = 0;  // of this rank in this step, in all micro-batches

  // stored() returns the dtype in which a strategy stores a parameter or buffer, and bytes_of() the bytes of tensors
  // stored in these dtypes.
  at::ScalarType stored(const at::Tensor& tensor) const;
  int64_t bytes_of(const NamedTensors& tensors) const;
};

// Returns nothing if there is no formula for these parameters or this step, or if the traffic depends on the samples.
using TrafficFormula = std::function<std::optional<std::vector<Traffic>>(const TrafficQuery& query)>;

}  // namespace dpbench
