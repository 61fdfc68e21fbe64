// The strategy "tp": tensor parallelism. The ranks of the axis tp compute one model together, each with a part of every
// divided layer. On a mesh with the axes dp and tp, each position on dp trains on its own samples.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategies/parts/replica.h"
#include "strategies/tensor/exchange.h"
#include "strategies/tensor/tensors.h"

namespace dpbench::tensor {

class TensorParallel : public Strategy {
 public:
  explicit TensorParallel(const Setup& setup);

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override;
  // Collective. The ranks of tp evaluate each rank's samples, one rank's after the other's.
  at::Tensor forward(const Batch& mine) override;
  NamedTensors parameters() override;
  NamedTensors gradients() override;
  NamedTensors buffers() override;
  NamedTensors state() override;
  void load(const Snapshot& snapshot) override;

 protected:
  // Returns null on an axis of one rank. phases: null in an evaluation.
  virtual std::shared_ptr<const TensorSplit> exchange(const Batch& batch, Phases* phases) const;
  // Returns a micro-batch's loss, divided by `micros`, the number of micro-batches.
  virtual at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, const TensorSplit* split,
                             size_t micros) const;
  // Sums over tp the gradients of whole parameters that cover only a part of the model's computation.
  virtual void sum_partial() const;
  // Averages all gradients over dp.
  virtual void average_over_replicas() const;
  virtual void clip() const;

  // Returns the names of the whole parameters that sum_partial() sums.
  std::vector<std::string> partial() const;
  // Sums gradients over an axis and divides them.
  void sum_gradients(const std::vector<at::Tensor>& gradients, const Axis& axis, double divisor) const;
  std::vector<at::Tensor> gradients_of(const std::vector<Parameter>& parameters) const;

  const Workload& workload_;
  Options options_;
  Mesh mesh_;
  Axis axis_, replicas_;
  Replica replica_;
  std::optional<double> clip_norm_;
  TensorPlan plan_;
  CutTensors tensors_;
  std::optional<Optimizer> optimizer_;

 private:
  void refuse_unused() const;
  void verify() const;
};

}  // namespace dpbench::tensor
