// Forward and backward passes over a model whose units are gathered and freed on the way.
#pragma once

#include <vector>

#include "strategies/fsdp/options.h"
#include "strategies/fsdp/unit.h"
#include "strategies/fsdp/unit_plan.h"
#include "strategies/parts/replica.h"

namespace dpbench::fsdp {

class Passes {
 public:
  // Cuts the replica's parameters into shards, and frees them unless they stay whole.
  Passes(const Replica& replica, const Options& options, const Storage& storage);

  // Runs forward and backward pass of a micro-batch. The gradients are multiplied by `share` and summed over ranks.
  // Returns the output and the loss. loss: computes it from the output and the targets.
  using Loss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;
  StepResult train(int64_t step, const Batch& batch, const Loss& loss, double share, bool last, Phases& phases);
  at::Tensor evaluate(const Batch& batch);

  // Frees what is kept between the micro-batches of a step, and waits for all sums.
  void end_step(Phases& phases);
  // Gathers the parameters that the optimizer has stepped, if they are not freed.
  void update();

  std::vector<Unit*> units();
  // Largest number of bytes of gathered parameters since the last call.
  int64_t take_peak();

 private:
  // The part of the autograd graph that belongs to a unit.
  struct Piece {
    at::Tensor input, output;
  };

  at::Tensor span(size_t unit, const at::Tensor& x, int64_t step, const at::Tensor& ids) const;
  at::Tensor forward(int64_t step, const Batch& batch, std::vector<Piece>& pieces, Phases& phases);
  void backward(std::vector<Piece>& pieces, double share, bool reduces, bool last, Phases& phases);
  void need(size_t unit, int direction, Phases& phases);
  void note_peak(int64_t beside);
  void reduce(Unit& unit, double share, bool last, Phases& phases);
  void free(size_t unit);
  void free_after_forward(size_t unit);

  const Replica& replica_;
  Options options_;
  bool frees_;
  UnitPlan plan_;
  std::vector<Unit> units_;
  Unit root_;
  Unit* reducing_ = nullptr;  // the unit of the reduction under way
  bool reducing_last_ = false;
  int64_t peak_bytes_ = 0;
};

}  // namespace dpbench::fsdp
