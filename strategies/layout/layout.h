// A strategy for any mesh with the axes dp, shard, ep, cp, pp and tp. The ranks of cp, pp and tp compute one replica of
// the model together: pp divides its blocks, tp its layers, and cp the tokens of each sample. Each replica trains on
// its own samples. Replicas on the axis dp store the same tensors; replicas on shard store some rows of each tensor;
// replicas on ep store some experts.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategies/context/exchange.h"
#include "strategies/layout/options.h"
#include "strategies/layout/passes.h"
#include "strategies/layout/rank_model.h"
#include "strategies/layout/reductions.h"
#include "strategies/layout/state.h"
#include "strategies/tensor/exchange.h"

namespace dpbench::layout {

class Layout : public Strategy {
 public:
  Layout(const Setup& setup, Options options);

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override;
  // Returns the model's output for this rank's samples. Collective: the ranks that compute one replica evaluate
  // together the samples of one of these ranks after the other.
  at::Tensor forward(const Batch& mine) override;
  NamedTensors parameters() override { return state_.parameters(); }
  NamedTensors gradients() override { return state_.gradients(); }
  NamedTensors buffers() override { return state_.buffers(); }
  NamedTensors state() override { return state_.optimizer_state(); }
  std::optional<std::vector<StatePart>> stored_parts() override { return state_.stored_parts(); }
  KeptTensors kept_tensors() override { return state_.kept_tensors(); }
  void load(const Snapshot& snapshot) override;
  std::map<std::string, std::vector<double>> figures() override;

 protected:
  virtual std::shared_ptr<const TensorSplit> make_exchange(const tensor::Options& options, int64_t tokens,
                                                           Phases* phases) const;
  virtual std::shared_ptr<const SequenceSplit> make_exchange(const context::Options& options, int64_t tokens,
                                                             Phases* phases) const;
  virtual std::shared_ptr<const ExpertSplit> make_expert_exchange(Phases* phases) const;
  // Returns a micro-batch's loss, divided by `micros`, the number of micro-batches.
  virtual at::Tensor loss_of(const at::Tensor& output, const at::Tensor& target, const ModelSplit& split,
                             size_t micros) const;
  // These functions call the functions of the same names in reductions.h, which reduce the gradients. They are virtual
  // so that a test can replace one by a wrong reduction.
  virtual void sum_partial() const { layout::sum_partial(model_); }
  virtual void sum_tokens() const { layout::sum_tokens(model_); }
  virtual void sum_tied() { layout::sum_tied(model_, passes_); }
  virtual void average_over_replicas() const { layout::average_over_replicas(model_); }
  virtual void average_over_experts() const { layout::average_over_experts(model_); }
  virtual void clip() const { layout::clip(model_, *clip_norm_); }

  const Workload& workload_;
  const Options options_;
  Replica replica_;
  std::optional<double> clip_norm_;
  pipeline::Schedules schedules_;
  RankModel model_;  // this rank's part of the model, cut from the model of `replica_`
  const Axes& axes_ = model_.axes;

 private:
  // Returns the objects through which this rank exchanges activations of a batch. phases: null in an evaluation.
  ModelSplit exchange(const Batch& batch, Phases* phases) const;
  void share_buffers(Phases& phases) const;
  StepResult shared(StepResult result, const Batch& last);
  at::Tensor evaluate(const Batch& batch);

  Optimizer optimizer_;
  TrainingState state_;
  Passes passes_;
  size_t micros_ = 1;  // number of micro-batches of the current step
};

}  // namespace dpbench::layout
