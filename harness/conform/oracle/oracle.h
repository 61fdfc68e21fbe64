// What the mathematics says: the gradient of every shard on one device, at the state the strategy itself had, and what
// the shards' gradients make together under the meaning that a strategy declares.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strategies/api/strategy.h"

namespace dpbench {

// The rows that one model replica sees at once: a rank's micro-batch, or one replica's piece of it.
struct Shard {
  int replica = 0;  // rank, or number of the piece
  int64_t micro = 0;
  int64_t rows = 0;
  std::vector<at::Tensor> gradient;  // of this shard's own loss (gathered: its part of the whole), by parameter
  at::Tensor output, loss;           // loss: its own (gathered: that of the whole micro-batch)
};

// What ties the rows of different replicas together: nothing, one loss over all outputs, or the forward pass itself.
enum class Coupling { none, loss, batch };

class Oracle {
 public:
  // onednn: as the replicas', which were told so; of float32 alone.
  Oracle(const Workload& workload, at::ScalarType dtype, uint64_t step_seed, int replicas, bool onednn);

  // micro[k][r]: what replica r gets of micro-batch k; r without rows: an empty Batch. Every replica starts from
  // `parameters[r]` (or the only ones) and `buffers[r]`, and keeps what it makes of these.
  std::vector<Shard> shards(int64_t step, const std::vector<std::vector<Batch>>& micro, Coupling coupling,
                            const std::vector<NamedTensors>& parameters, const std::vector<NamedTensors>& buffers);
  // Of replica r after the last call of shards().
  NamedTensors buffers(int replica) const;
  at::Tensor evaluate(const Batch& batch, const NamedTensors& parameters, const NamedTensors& buffers);

  const std::vector<std::string>& names() const { return names_; }  // of what can have a gradient, each tensor once
  const std::vector<bool>& used() const { return used_; }           // had a gradient in some shard of the last call
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

// A row of the shares that `meaning` gives each shard: the combined gradient is the sum of share * gradient.
std::vector<double> shares(const std::vector<Shard>& shards, Gradient meaning, int world, int64_t accumulate,
                           bool sum_loss);
std::vector<at::Tensor> combine(const std::vector<Shard>& shards, const std::vector<double>& shares);

// Global L2 norm over all gradients, in float64.
double norm(const std::vector<at::Tensor>& gradients);

}  // namespace dpbench
