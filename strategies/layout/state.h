// The training state of a layout: read as whole tensors or as the parts that each rank stores, and set from whole
// tensors.
#pragma once

#include <vector>

#include "strategies/api/parts/optimizer.h"
#include "strategies/api/state_part.h"
#include "strategies/layout/rank_model.h"

namespace dpbench::layout {

class TrainingState {
 public:
  // optimizer: the optimizer of this rank, which steps the parts of parameters that the rank stores.
  TrainingState(RankModel& model, const Optimizer& optimizer, const OptimizerSpec& spec)
      : model_(model), optimizer_(optimizer), slots_(state_slots(spec)) {}

  // Implementations of the functions of the class Strategy with the same names; optimizer_state() is the implementation
  // of state().
  NamedTensors parameters();
  NamedTensors gradients();
  NamedTensors buffers();
  NamedTensors optimizer_state();
  std::vector<StatePart> stored_parts();
  KeptTensors kept_tensors() const;
  // Sets the tensors that this rank stores, from the whole tensors of the model and the optimizer.
  void set(const Snapshot& whole);

 private:
  NamedTensors step_counts(const NamedTensors& state);

  RankModel& model_;
  const Optimizer& optimizer_;
  std::vector<Slot> slots_;
};

}  // namespace dpbench::layout
