// The forward and backward passes of a step on one rank, in the order of a pipeline schedule.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strategies/api/parts/replica.h"
#include "strategies/api/phases.h"
#include "strategies/fsdp/units.h"
#include "strategies/layout/parts.h"
#include "strategies/parts/naming_errors.h"
#include "strategies/pipeline/links.h"
#include "strategies/pipeline/stages.h"
#include "strategies/schedule/schedule.h"
#include "workloads/layers/delayed_weights.h"

namespace dpbench::layout {

// Runs a step's forward and backward passes on one rank. owner: the strategy's name for error messages.
class Passes {
 public:
  // A function that computes the loss. output: the model's output for a part of a micro-batch.
  using Loss = std::function<at::Tensor(const at::Tensor& output, const Part& part)>;
  // axis: the axis of the pipeline's stages. typed: see pipeline::Links.
  // units: the units of sharded parameters in this rank's stages; null if parameters are not sharded.
  Passes(std::string owner, const Replica& replica, const std::vector<pipeline::Stage>& stages, Axis axis,
         std::vector<Axis> typed, bool poison, fsdp::Units* units, Loss loss);

  // Runs a step. Returns the output and the loss on the rank of the last stage, and an empty result on other ranks.
  StepResult run(int64_t step, std::vector<Part> parts, const pipeline::Schedule& schedule, Phases& phases);
  // Runs the forward pass of a pipeline stage without gradients. x: the output of the stage before it, or the samples.
  at::Tensor evaluate(size_t stage, const at::Tensor& x, const Part& part);

  const pipeline::Links& links() const { return links_; }
  // Returns call(). If the axis pp has several ranks and call() throws, the error's message names this rank and what(),
  // the part of the step that failed.
  template <class What, class Call>
  auto named(const What& what, const Call& call) const {
    if (axis_.size == 1) return call();
    const auto place = [&] { return owner_ + ": rank " + std::to_string(axis_.rank) + " of the axis pp, " + what(); };
    return naming_errors(place, call);
  }
  // Broadcasts the tensor of rank `root` of the axis pp to the axis's other ranks. what: the tensor's name for error
  // messages.
  at::Tensor share(const std::string& what, const at::Tensor& tensor, int root) const {
    return named([&] { return "broadcast of " + what; }, [&] { return links_.share(tensor, root); });
  }

 private:
  // The state that a stage keeps of a micro-batch between its forward and its backward pass.
  struct Live {
    fsdp::GraphPieces pieces;
    at::Tensor output;  // the stage's output, kept until the stage's backward pass; undefined for the last stage

    const at::Tensor& input() const { return pieces.front().input; }
  };

  at::Tensor compute(size_t stage, const fsdp::Span& blocks, const at::Tensor& x, int64_t step, const Part& part) const;
  // Runs a stage's forward pass and appends the parts of its autograd graph to `pieces`.
  at::Tensor through(size_t stage, const at::Tensor& x, int64_t step, const Part& part, fsdp::GraphPieces& pieces,
                     Phases& phases);
  size_t number_on_rank(size_t stage) const;  // index of the stage among the stages of its rank
  int rank_of(int stage) const { return stages_[static_cast<size_t>(stage)].rank; }
  bool is_last(int stage) const { return stage + 1 == static_cast<int>(stages_.size()); }
  bool is_last_part(int microbatch) const { return microbatch + 1 == static_cast<int>(parts_.size()); }
  Part& part(int microbatch) { return parts_[static_cast<size_t>(microbatch)]; }
  size_t place_of(int stage, int microbatch) const {
    return static_cast<size_t>(stage) * parts_.size() + static_cast<size_t>(microbatch);
  }
  Live& live(int stage, int microbatch) { return live_[place_of(stage, microbatch)]; }
  void execute(const pipeline::Action& action, Phases& phases);
  void transfer(const pipeline::Action& action);
  at::Tensor arrived(const pipeline::Action& receive, const at::Tensor& local);
  void forward(const pipeline::Action& action, Phases& phases);
  // Computes the gradients of a stage's input and parameters. For the action input_gradient of a split backward pass,
  // weight_gradients() computes the gradients of linear layers' weights later.
  void backward(const pipeline::Action& action, Phases& phases);
  void weight_gradients(int stage, int microbatch, Phases& phases);

  std::string owner_;
  const Replica& replica_;
  const std::vector<pipeline::Stage>& stages_;
  Axis axis_;
  pipeline::Links links_;
  fsdp::Units* units_;
  Loss loss_;

  // The members from here on are the state of the current step.
  int64_t step_ = 0;
  std::vector<Part> parts_;
  std::vector<Live> live_;  // state of the micro-batches in flight, ordered by stage and then by micro-batch
  // Weight gradients that are still to be computed, ordered by stage and then by micro-batch. Empty if the schedule
  // does not split backward passes.
  std::vector<std::shared_ptr<DelayedWeights>> delayed_;
  std::vector<StepResult> results_;  // output and loss of each micro-batch; filled only on the rank of the last stage
  // Tensors being received, by their stage and micro-batch.
  std::map<std::pair<int, int>, pipeline::Transfer> arriving_;
  // Tensors being sent, with the actions of the schedule that send them.
  std::vector<std::pair<pipeline::Action, pipeline::Transfer>> sent_;
};

}  // namespace dpbench::layout
