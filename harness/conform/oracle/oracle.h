// Computes the expected results: the gradient of every shard on one device, from the strategy's own state before the
// step, and their combination according to the gradient semantics that the strategy declares.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench {

// The samples of one forward pass of a replica: a rank's micro-batch, or one replica's piece of it.
struct Shard {
  int replica = 0;  // rank, or index of the piece
  int64_t micro = 0;
  int64_t rows = 0;
  std::vector<at::Tensor> gradient;  // gradient of this shard's loss (gathered: its part of the total), by parameter
  at::Tensor output, loss;           // loss: of this shard (gathered: of the whole micro-batch)
};

// How samples of different replicas are coupled: not at all, by one loss over all outputs, or in the forward pass.
enum class Coupling { none, loss, batch };

class Oracle {
 public:
  // onednn: use oneDNN for float32 matrix products, as the strategy's replicas do.
  Oracle(const Workload& workload, at::ScalarType dtype, uint64_t step_seed, int replicas, bool onednn);

  // Computes all shards of a step. micro[k][r]: replica r's part of micro-batch k, or an empty Batch. Replica r starts
  // from parameters[r] (or the only entry) and buffers[r], and keeps its updated buffers.
  std::vector<Shard> shards(int64_t step, const std::vector<std::vector<Batch>>& micro, Coupling coupling,
                            const std::vector<NamedTensors>& parameters, const std::vector<NamedTensors>& buffers);
  // Buffers of a replica after the last call of shards().
  NamedTensors buffers(int replica) const;
  at::Tensor evaluate(const Batch& batch, const NamedTensors& parameters, const NamedTensors& buffers);

  const std::vector<std::string>& names() const { return names_; }  // trainable parameters, each tensor once
  const std::vector<bool>& used() const { return used_; }           // has a gradient in a shard of the last call
  at::ScalarType dtype() const { return dtype_; }

 private:
  Batch cast(const Batch& batch) const;
  at::Tensor run(Model& model, int64_t step, const Batch& batch) const;
  std::vector<Shard> forward(int64_t step, int64_t k, const std::vector<Batch>& parts, Coupling coupling);
  void backward(std::span<Shard> shards, const std::vector<at::Tensor>& targets, Coupling coupling);
  void keep_gradient(Shard& shard, Model& model);

  const Workload& workload_;
  at::ScalarType dtype_;
  uint64_t step_seed_;
  bool onednn_;
  std::vector<std::shared_ptr<Model>> models_;
  std::vector<std::string> names_;
  std::vector<bool> used_;
};

// Returns the weight of each shard under `meaning`: the combined gradient is the sum of share * gradient.
std::vector<double> shares(const std::vector<Shard>& shards, Gradient meaning, int world, int64_t accumulate,
                           bool sum_loss);
std::vector<at::Tensor> combine(const std::vector<Shard>& shards, const std::vector<double>& shares);

// Global L2 norm over all gradients, in float64.
double norm(const std::vector<at::Tensor>& gradients);

}  // namespace dpbench
