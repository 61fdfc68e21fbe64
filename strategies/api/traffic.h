// A strategy's formula of its traffic: the bytes that a rank passes to the collectives of a step, and optionally the
// number of calls. The checks compare the formula with the bytes and calls counted in a run.
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
  // The mesh axis, and the name of the c10d operation, such as "allreduce", "allgather" or "reduce_scatter".
  std::string axis, op;
  // Bytes of the input tensors that this rank passes; for a scatter or recv, bytes of its output tensors.
  int64_t bytes = 0;
  // Number of calls that together carry these bytes. nullopt: the strategy does not promise a number, for example
  // because it depends on buckets. The checks compare the calls on an axis by an operation only if all entries for them
  // have a number.
  std::optional<int64_t> calls = {};
  // True if the samples determine how the bytes are divided between ranks, but not their sum over all ranks. The checks
  // then compare only the sum of `bytes` over all ranks with the counted bytes.
  bool sum_only = false;
  // True if the samples determine even the sum over all ranks. The checks then compare neither bytes nor calls of this
  // operation on this axis, and reports have no figure for them.
  bool unknown = false;
};

// The forward pass of one sample through a block of the model.
struct BlockRun {
  double flop = 0;    // floating-point operations of the block's matrix products, convolutions and attention
  at::Tensor output;  // a tensor without data: the sizes and the dtype of the block's output
};

// Inputs of a strategy's traffic formula, for one rank and one step.
struct TrafficQuery {
  const Model& model;    // the whole model, as the workload creates it
  at::ScalarType dtype;  // dtype of the computation (Setup::dtype)
  const Params& params;
  const MeshShape& mesh;
  int rank = 0;
  int64_t step = 0, accumulate = 1;
  int64_t taken = 0;    // number of steps that the strategy has run since its construction
  bool clips = false;   // true if the gradients' global norm is clipped
  int64_t samples = 0;  // number of this rank's samples in this step, over all micro-batches
  // Number of this rank's samples in each micro-batch. `micro` lists the micro-batches of this step, `earlier` those of
  // all previous steps since the strategy's construction.
  std::vector<int64_t> micro = {}, earlier = {};
  // Returns the cost and the output's sizes and dtype of each of the model's blocks, computed in `dtype`; an empty list
  // if the model has no blocks or samples differ in size. The first call runs the model; queries of several steps share
  // its result.
  std::function<const std::vector<BlockRun>&()> block_runs = {};

  // stored() returns the dtype in which a strategy stores the given parameter or buffer. bytes_of() returns the total
  // size in bytes of tensors that are stored in these dtypes.
  at::ScalarType stored(const at::Tensor& tensor) const;
  int64_t bytes_of(const NamedTensors& tensors) const;
  // Returns the size of an element of an activation. cast: true if autocast converts the activation to its dtype.
  int64_t element_bytes(bool cast = false) const;
};

// Returns the traffic of one rank in one step. Returns nullopt if there is no formula for these parameters or this
// step.
using TrafficFormula = std::function<std::optional<std::vector<Traffic>>(const TrafficQuery& query)>;

}  // namespace dpbench
