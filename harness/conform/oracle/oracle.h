// The oracle: computes the expected gradients of a step on one device, from the strategy's own state before the step.
// It computes the gradient of every shard (the samples of one forward pass) and combines them as the strategy declares.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/conform/evidence/sample.h"
#include "strategies/api/strategy.h"

namespace dpbench {

// A shard: the samples of one forward pass, and its results. The samples are a rank's micro-batch, or one replica's
// piece of a single process's micro-batch.
struct Shard {
  int replica = 0;  // index of the rank, or of the replica in a single process
  int64_t micro = 0;
  int64_t terms = 0;  // number of terms averaged in the shard's loss: samples or tokens
  // Gradient of the shard's loss, by parameter. If one loss covers the outputs of all replicas, the shard's part of
  // that loss's gradient.
  std::vector<at::Tensor> gradient;
  std::vector<bool> used = {};  // true for each parameter that the shard's backward pass reached
  at::Tensor output, loss;      // loss of the shard, or the one loss that covers all replicas' outputs
};

// How samples of different replicas influence each other: not at all, through one loss over all outputs, or in the
// forward pass (synchronised BatchNorm).
enum class Coupling { none, loss, batch };

// Computes the passes of all replicas with one model, into which it loads each replica's parameters and buffers in
// turn.
class Oracle {
 public:
  // Settings of a strategy that change how its replicas compute, and the device of the oracle. onednn: float32 matrix
  // products use oneDNN. used_in: dtype in which weight matrices are used under bfloat16 autocast, if not their own.
  // Gradients are returned on the CPU.
  struct Replicas {
    bool onednn = false;
    std::optional<at::ScalarType> used_in = {};
    at::Device device = at::kCPU;
    explicit Replicas(const StrategyInfo& strategy) : onednn(strategy.onednn), used_in(strategy.used_in) {}
    Replicas() = default;
  };
  // sample: selects the elements of each gradient that the shards keep.
  Oracle(const Workload& workload, at::ScalarType dtype, uint64_t step_seed, const Replicas& replicas,
         Sample sample = {});

  // Computes all shards of a step. micro[k][r] holds replica r's samples of micro-batch k; an empty Batch if it has
  // none. Replica r starts from buffers[r] and from parameters[r], or from parameters[0] if that is the only entry.
  std::vector<Shard> shards(int64_t step, const std::vector<std::vector<Batch>>& micro, Coupling coupling,
                            const std::vector<NamedTensors>& parameters, const std::vector<NamedTensors>& buffers);
  // Returns a replica's buffers after the step that shards() computed last.
  const NamedTensors& buffers(int replica) const { return buffers_[static_cast<size_t>(replica)]; }
  at::Tensor evaluate(const Batch& batch, const NamedTensors& parameters, const NamedTensors& buffers);

  // Names of the trainable parameters; a tensor with several names is listed once.
  const std::vector<std::string>& names() const { return names_; }
  // True for each parameter that got a gradient in the step that shards() computed last.
  const std::vector<bool>& used() const { return used_; }
  at::ScalarType dtype() const { return dtype_; }

 private:
  // The samples of a micro-batch, one batch per replica that has any, and their shards.
  struct Parts {
    std::vector<Batch> batches;
    std::vector<Shard> shards;
  };

  Batch cast(const Batch& batch) const;
  at::Tensor run(int64_t step, const Batch& batch) const;
  Parts parts_of(const std::vector<Batch>& parts, int64_t k) const;
  void enter(int replica);
  void leave(int replica);
  void pass_alone(int64_t step, const Batch& batch, Shard& shard);
  void pass_through_one_loss(int64_t step, Parts& parts);
  void pass_as_one_batch(int64_t step, Parts& parts);
  void keep_gradient(Shard& shard);

  const Workload& workload_;
  at::ScalarType dtype_;
  uint64_t step_seed_;
  bool onednn_;
  at::Device device_;
  Sample sample_;
  std::shared_ptr<Model> model_;
  NamedTensors trainable_;  // trainable parameters of `model_`
  std::vector<std::string> names_;
  std::vector<bool> used_;
  const std::vector<NamedTensors>* parameters_ = nullptr;  // the replicas' parameters, while shards() computes a step
  int loaded_ = -1;                                        // the replica whose parameters were loaded last; -1: none
  std::vector<NamedTensors> buffers_;
};

// Returns the reason why the oracle cannot compute what a strategy must compute with a workload's model: the model
// refuses float64, but not float32, or its training loss depends on torch's random numbers. Otherwise nullopt.
std::optional<std::string> why_not_judged(const Workload& workload);

// Returns the weight of each shard under the declared gradient semantics `meaning`. The expected gradient is the
// weighted sum of the shards' gradients.
std::vector<double> shares(const std::vector<Shard>& shards, Gradient meaning, int world, int64_t accumulate,
                           bool sum_loss);
std::vector<at::Tensor> combine(const std::vector<Shard>& shards, const std::vector<double>& shares);

// Returns the global L2 norm over all gradients, computed in float64.
double norm(const std::vector<at::Tensor>& gradients);

}  // namespace dpbench
