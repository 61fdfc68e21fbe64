// The forward and backward passes of a step on one rank, in the order of a pipeline schedule.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strategies/api/phases.h"
#include "strategies/fsdp/units.h"
#include "strategies/parts/replica.h"
#include "strategies/pipeline/links.h"
#include "strategies/pipeline/stages.h"
#include "strategies/schedule/schedule.h"

namespace dpbench::layout {

// A micro-batch of the pipeline: a part of one of the step's micro-batches.
struct Part {
  Batch batch;
  double share = 1;  // of its loss in the loss of the micro-batch
  ModelSplit split = {};
};

// owner: the strategy's name for error messages.
class Passes {
 public:
  // Returns the loss of a micro-batch's output.
  using Loss = std::function<at::Tensor(const at::Tensor& output, const Part& part)>;
  // units: of this rank's stages; null if parameters are not sharded.
  Passes(std::string owner, const Replica& replica, const std::vector<pipeline::Stage>& stages, Axis axis, bool poison,
         fsdp::Units* units, Loss loss);

  // Runs a step. Returns the output and the loss on the rank of the last stage, nothing on other ranks.
  StepResult run(int64_t step, std::vector<Part> parts, const pipeline::Schedule& schedule, Phases& phases);
  // Runs a stage's forward pass without gradients. x: the output of the stage before it, or the samples.
  at::Tensor evaluate(size_t stage, const at::Tensor& x, const Part& part);

  pipeline::Links& links() { return links_; }

 private:
  // What a stage keeps of a micro-batch between its forward and its backward pass.
  struct Live {
    GraphPieces pieces;
    at::Tensor output;  // until the backward pass; empty for the last stage

    const at::Tensor& input() const { return pieces.front().input; }
  };

  at::Tensor compute(size_t stage, const fsdp::Span& blocks, const at::Tensor& x, int64_t step, const Part& part) const;
  // Appends the parts of the autograd graph to `pieces`.
  at::Tensor through(size_t stage, const at::Tensor& x, int64_t step, const Part& part, GraphPieces& pieces,
                     Phases& phases);
  size_t number_on_rank(size_t stage) const;  // among the stages of its rank
  int rank_of(int stage) const { return stages_[static_cast<size_t>(stage)].rank; }
  bool is_last(int stage) const { return stage + 1 == static_cast<int>(stages_.size()); }
  Part& part(int microbatch) { return parts_[static_cast<size_t>(microbatch)]; }
  Live& live(int stage, int microbatch);
  void execute(const pipeline::Action& action, Phases& phases);
  void transfer(const pipeline::Action& action);
  at::Tensor arrived(int stage, int microbatch, const at::Tensor& local);
  void forward(int stage, int microbatch, Phases& phases);
  void backward(int stage, int microbatch, Phases& phases);

  std::string owner_;
  const Replica& replica_;
  const std::vector<pipeline::Stage>& stages_;
  Axis axis_;
  pipeline::Links links_;
  fsdp::Units* units_;
  Loss loss_;

  // Of the step under way.
  int64_t step_ = 0;
  std::vector<Part> parts_;
  std::vector<Live> live_;                                      // by stage, then by micro-batch
  std::vector<StepResult> results_;                             // by micro-batch, on the rank of the last stage
  std::map<std::pair<int, int>, pipeline::Transfer> arriving_;  // by stage and micro-batch
  std::vector<pipeline::Transfer> sent_;
};

}  // namespace dpbench::layout
