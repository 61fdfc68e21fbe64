// The reference: a plain, correct data-parallel strategy with exchangeable parts. Each wrong strategy replaces one
// part.
#pragma once

#include <functional>

#include "strategies/api/strategy.h"

namespace dpbench::wrong {

struct Run;

// The exchangeable parts of a training step, in the order of their calls.
struct Parts {
  std::function<void(Run&)> start;                 // broadcasts rank 0's parameters and buffers, once
  std::function<void(Run&)> sync_buffers;          // broadcasts rank 0's buffers before a step
  std::function<Batch(Run&, const Batch&)> batch;  // returns the samples that this rank trains on
  std::function<void(Run&)> clear;                 // clears the gradients before a step
  std::function<at::Tensor(Run&, const Batch&, const at::Tensor& output)> loss;  // returns a micro-batch's loss
  std::function<double(Run&)> micro_scale;  // returns the factor on a micro-batch's loss
  std::function<void(Run&)> after_micro;    // called after each micro-batch's backward pass
  std::function<void(Run&)> before_reduce;
  std::function<std::vector<std::vector<size_t>>(Run&)> buckets;
  std::function<void(Run&, at::Tensor&, size_t)> reduce;  // replaces a bucket's gradients by their mean over ranks
  std::function<void(Run&)> after_reduce;
  std::function<void(Run&)> clip;
  std::function<void(Run&)> update;  // runs the optimizer step
  std::function<void(Run&, StepResult&)> report;
  std::function<at::Tensor(Run&, const Batch&)> evaluate;
  std::function<NamedTensors(Run&)> reported_gradients;
  std::function<void(Run&, NamedTensors&)> reported_state;  // may change the reported optimizer state
  std::function<void(Run&, Snapshot&)> before_load;         // may change a snapshot before training resumes from it
  std::function<void(Run&)> finish;                         // called at the end of training, after the last step
  bool autocast = true;                                     // with dtype bfloat16, runs the forward pass under autocast
};
Parts right_parts();

// One rank's training state, which is passed to every exchangeable part of a training step.
struct Run {
  Run(const Setup& setup, Parts parts);

  void all_reduce(at::Tensor& tensor, c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM);
  void broadcast(const at::Tensor& tensor, int from = 0);
  at::Tensor flat(const std::vector<size_t>& bucket);
  void unflat(const std::vector<size_t>& bucket, const at::Tensor& flat);
  bool all_finite() const;  // true if all gradients are finite

  Parts parts;
  const Workload& workload;
  Mesh mesh;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // process group of all ranks
  int rank = 0, world = 1;
  at::ScalarType dtype;
  uint64_t step_seed = 0;
  std::optional<double> clip_norm;
  double bucket_bytes = 0;
  std::shared_ptr<Model> model;
  std::vector<std::string> names;
  std::vector<at::Tensor> leaves;     // trainable parameters; a parameter that layers share appears once
  std::vector<at::Tensor> gradients;  // gradients of the current step; undefined for parameters that no rank used
  std::vector<at::Tensor> momenta, variances, counts;
  std::vector<at::Tensor> kept;  // tensors that wrong strategies store, such as earlier gradients
  int64_t step = 0, micro = 0, micros = 1;
  int64_t samples = 0;     // for a mean over all samples: number of samples that this rank has seen in the step
  bool own_finite = true;  // for wrong strategies: true if this rank's gradients were finite before the reduction
};

// Returns a registration named "reference" for a strategy of these parts, with one process per rank.
StrategyInfo strategy_of(Parts parts, Gradient gradient = Gradient::mean_of_means, Buffers buffers = Buffers::rank0);

// Traffic formula of the reference strategy with correct parts, for ranks that use all parameters.
std::optional<std::vector<Traffic>> reference_traffic(const TrafficQuery& query);

}  // namespace dpbench::wrong
