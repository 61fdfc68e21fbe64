// A strategy for any mesh with the axes dp, shard, ep, cp, pp and tp. The ranks of cp, pp and tp compute one replica of
// the model together: pp divides its blocks, tp its layers, and cp the tokens of each sample. Each replica trains on
// its own samples. Replicas on the axis dp store the same tensors; replicas on shard store some rows of each tensor;
// replicas on ep store some experts.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategies/context/exchange.h"
#include "strategies/fsdp/units.h"
#include "strategies/layout/options.h"
#include "strategies/layout/passes.h"
#include "strategies/parts/replica.h"
#include "strategies/pipeline/stages.h"
#include "strategies/tensor/exchange.h"
#include "strategies/tensor/tensors.h"

namespace dpbench::layout {

class Layout : public Strategy {
 public:
  Layout(const Setup& setup, Options options);

  StepResult step(int64_t step, std::span<const Batch> micro, Phases& phases) override;
  // Collective. The ranks of a replica together evaluate the samples of each rank in turn.
  at::Tensor forward(const Batch& mine) override;
  NamedTensors parameters() override;
  NamedTensors gradients() override;
  NamedTensors buffers() override;
  NamedTensors state() override;
  std::optional<std::vector<StatePart>> stored_parts() override;
  KeptTensors kept_tensors() override;
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
  // Sums over tp the gradients of the whole parameters for which each rank computes only a part of the gradient.
  virtual void sum_partial() const;
  // Sums all gradients over cp, because each rank's gradients cover only its own tokens.
  virtual void sum_tokens() const;
  // Sums over pp the gradients of each parameter that several stages use, in the order of its stages.
  virtual void sum_tied();
  // Averages all gradients over dp, unless the units of sharded parameters have already averaged them. First throws if
  // a trainable parameter has no gradient for an average over dp, shard or ep and find_unused is off.
  virtual void average_over_replicas() const;
  // Divides the gradients of experts by the number of ranks of ep, and averages all other gradients over ep.
  virtual void average_over_experts() const;
  virtual void clip() const;

  // A parameter of this rank. stored: the parameter itself, or this rank's rows of it. `stored` also holds the
  // gradient.
  struct Held {
    const pipeline::Placed* placed;
    at::Tensor stored;
    const std::string& name() const { return placed->name; }
  };
  template <class Predicate>
  std::vector<Held> own_if(const Predicate& predicate) const {
    std::vector<Held> all;
    std::ranges::copy_if(own_, std::back_inserter(all), predicate);
    return all;
  }
  std::vector<Held> trainable() const {
    return own_if([](const Held& one) { return one.placed->tensor.requires_grad(); });
  }
  bool is_partial(const Held& one) const { return tensors_.is_partial(one.name(), options_.tensor.sequence); }
  bool is_expert(const Held& one) const { return experts_.is_cut(one.name()); }
  std::vector<at::Tensor> gradients_of(const std::vector<Held>& parameters) const;
  int rank_of(int stage) const { return stages_[static_cast<size_t>(stage)].rank; }
  // Returns the rank on the axis pp whose copy of a tensor enters norms and checkpoints: that of the tensor's first
  // stage.
  int owner_of(const pipeline::Placed& one) const { return rank_of(one.stages.front()); }
  std::vector<int> ranks_of(const pipeline::Placed& one) const;  // ranks on the axis pp that have the tensor
  bool is_mine(const pipeline::Placed& one) const;

  const Workload& workload_;
  Options options_;
  Mesh mesh_;
  Axis shard_, replicas_, cp_, pp_, tp_, ep_;
  Replica replica_;
  std::optional<double> clip_norm_;
  pipeline::Schedules schedules_;
  std::vector<pipeline::Stage> stages_;
  tensor::CutTensors tensors_, experts_;  // tensors that are cut over tp, and over ep
  std::vector<pipeline::Placed> parameters_, buffers_;
  std::vector<Held> own_;  // parameters of this rank's stages, including frozen ones

 private:
  using Choose = std::function<at::Tensor(const Held&)>;

  bool is_distributed() const { return cp_.size > 1 || pp_.size > 1 || tp_.size > 1; }
  Axis axis_of(const std::string& name) const;
  void refuse_parts_of_batch_statistics() const;
  void refuse_uncut_sequence() const;
  // Sets the axes over which parameters are sharded and replicated. Returns false if neither the mesh nor an option
  // (gather, reduce) needs units.
  bool choose_shard_axes();
  void shard();  // no-op unless the options and the mesh require sharding
  void keep_own();
  std::vector<int64_t> part_counts(std::span<const Batch> micro) const;
  std::vector<Part> parts_of(std::span<const Batch> micro, Phases& phases) const;
  // Returns this rank's exchanges for a batch. phases: null in an evaluation.
  ModelSplit exchange(const Batch& batch, Phases* phases) const;
  void share_buffers(Phases& phases) const;
  void clear_gradients();
  void take_gradients();
  std::vector<bool> used_anywhere(const std::vector<fsdp::ShardedParameter>& all) const;
  void refuse_unused() const;
  void verify() const;
  StepResult shared(StepResult result, const Batch& last);
  at::Tensor evaluate(const Batch& batch);
  NamedTensors step_counts(const NamedTensors& state);
  // Gathers a whole tensor for each parameter, in the order of `parameters_`, on every rank. choose: returns this
  // rank's part of the tensor, or an undefined tensor. scalars: true if each tensor is a single float32, equal on all
  // ranks that have the parameter.
  std::vector<at::Tensor> whole(const Choose& choose, bool scalars = false);
  // Same as whole(), but for trainable parameters only, and with their names.
  NamedTensors trained(const Choose& choose, const std::string& suffix, bool scalars = false);
  std::optional<StatePart> part_of(const Held& one, StatePart::Kind kind, const std::string& name,
                                   const at::Tensor& values) const;
  // rank_piece() returns this rank's piece of a whole tensor; stored_part() returns the part of that piece which this
  // rank stores.
  at::Tensor rank_piece(const std::string& name, const at::Tensor& whole) const;
  at::Tensor stored_part(const std::string& name, const at::Tensor& whole) const;

  std::optional<fsdp::Units> units_;  // units of sharded parameters; nullopt: not sharded
  std::optional<Passes> passes_;      // created after the model has been cut into stages
  std::optional<Optimizer> optimizer_;
  size_t micros_ = 1;  // number of micro-batches of the current step
};

}  // namespace dpbench::layout
