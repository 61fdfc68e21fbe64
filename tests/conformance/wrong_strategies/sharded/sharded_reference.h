// The sharded reference: a plain, correct strategy that shards parameters, gradients and optimizer state by rows. It
// consists of replaceable functions; each wrong strategy replaces some of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"
#include "strategies/parts/compat.h"

namespace dpbench::wrong {

struct ShardedRun;
struct ShardedParameter;

// Parameters that are gathered together.
struct ShardedUnit {
  size_t number = 0;
  size_t first = 0, last = 0;           // blocks first .. last - 1; none for a model without blocks
  std::vector<size_t> parameters = {};  // indices in ShardedRun::parameters
};

// The replaceable functions of a training step, in the order of their calls.
struct ShardedParts {
  std::function<void(ShardedRun&)> start;         // broadcasts rank 0's parameters and buffers, once
  std::function<void(ShardedRun&)> sync_buffers;  // broadcasts rank 0's buffers before a step
  std::function<void(ShardedRun&)> clear;         // clears the gradients before a step
  // Gathers a unit before its forward (direction 1) or backward pass (-1), and starts to gather the next one.
  std::function<void(ShardedRun&, size_t unit, int direction)> need;
  std::function<void(ShardedRun&, ShardedUnit&)> begin_gather, end_gather;
  // Returns the rows of a parameter, given the concatenated shards of all ranks.
  std::function<at::Tensor(ShardedRun&, ShardedParameter&, const at::Tensor& gathered)> joined;
  std::function<void(ShardedRun&, ShardedUnit&)> free;
  std::function<void(ShardedRun&, ShardedUnit&)> after_forward;
  std::function<bool(ShardedRun&)> reduces;  // true if this micro-batch's gradients are reduced
  // Returns the gradient of this rank's samples, padded to equal shards: the input of the reduction.
  std::function<at::Tensor(ShardedRun&, ShardedParameter&)> filled;
  std::function<void(ShardedRun&, ShardedUnit&)> begin_reduce, end_reduce;
  // Adds the reduced gradient of a micro-batch to the accumulated gradient.
  std::function<void(ShardedRun&, ShardedParameter&, const at::Tensor& sum)> add;
  std::function<void(ShardedRun&)> over_replicas;  // sums the shards of gradients over the axis dp
  std::function<double(ShardedRun&)> squares;      // returns the square of the gradient's norm
  std::function<void(ShardedRun&, ShardedParameter&)> update;
  std::function<at::Tensor(ShardedRun&, const Batch&)> evaluate;
  // Returns the whole tensor, given this rank's shard of it.
  std::function<at::Tensor(ShardedRun&, ShardedParameter&, const at::Tensor& shard)> reported;
  // Returns this rank's shard of a whole tensor.
  std::function<at::Tensor(ShardedRun&, const at::Tensor& value)> loaded;
};
ShardedParts right_sharded_parts();

// A collective in progress.
struct Transfer {
  WorkPtr work;
  at::Tensor input, output;
};

struct ShardedParameter {
  std::string name;  // for a tied parameter, its first name
  at::Tensor whole;  // the model's tensor; NaN while it is freed
  int64_t rows = 0;  // rows of the whole parameter, over all ranks
  at::Tensor shard;  // this rank's rows, padded so that all ranks have equally many
  at::Tensor gradient = {}, momentum = {}, variance = {}, count = {};  // the shard's gradient and optimizer state
  bool used = false;                                                   // true if this rank used the parameter
  bool is_whole = true;
  Transfer gather = {}, reduction = {};
};

// One rank's training state, an argument of every function of ShardedParts.
struct ShardedRun {
  ShardedRun(const Setup& setup, ShardedParts parts, int64_t blocks_per_unit);

  // Sums the tensor over the ranks of `group`, in place.
  void sum(at::Tensor tensor, const c10::intrusive_ptr<c10d::ProcessGroup>& group) const;
  // Returns the tensor with rows of zeros at its end, so that each rank gets equally many rows.
  at::Tensor padded(const at::Tensor& whole) const;
  // Returns the padded rows of `value` that belong to the rank at `place` on the axis of shards.
  at::Tensor piece(const at::Tensor& value, int place) const;
  // Returns an uninitialised tensor for the shards of all ranks, one after the other.
  at::Tensor empty_whole(const at::Tensor& its_shard) const;
  int64_t own_rows(const ShardedParameter& parameter) const;  // rows of this rank's shard, without padding
  // Returns the next unit in this direction, or `unit` itself if it is the last.
  ShardedUnit& neighbour(const ShardedUnit& unit, int direction);

  ShardedParts parts;
  const Workload& workload;
  Mesh mesh;
  Axis shard, replica;
  int rank = 0;
  at::ScalarType dtype;
  uint64_t step_seed = 0;
  std::optional<double> clip_norm;
  std::shared_ptr<Model> model;
  std::vector<ShardedParameter> parameters;
  std::vector<ShardedUnit> units;
  ShardedUnit shared;  // parameters of several units or of none; gathered for the whole step
  int64_t step = 0, micro = 0, micros = 1;
  // For wrong strategies: tensors and handles of an earlier micro-batch or step.
  std::vector<at::Tensor> kept;
  std::vector<WorkPtr> works;
};

struct ShardedOptions {
  int64_t blocks_per_unit = 1;
  bool frees = true;  // if true, a unit is freed after its forward pass, and hence gathered twice per micro-batch
  bool reduces_each_micro_batch = true;
};

// Returns a registration named "sharded-reference" for a strategy that consists of these functions.
StrategyInfo sharded_strategy_of(const ShardedParts& parts, const ShardedOptions& options = {});

// Formula for StrategyInfo::live_parameters: the most bytes of parameters and all-gathers that the sharded reference
// strategy has in memory, if a freed parameter takes none. Counts a rank's shards, the shared parameters, one whole
// unit, and one unit that is being gathered.
std::optional<int64_t> live_sharded_parameters(const TrafficQuery& query);

namespace sharded {
// Runs a forward pass in evaluation mode, with all units gathered and freed again. Every rank must call it.
at::Tensor evaluate(ShardedRun& run, const Batch& batch);
}  // namespace sharded

}  // namespace dpbench::wrong
