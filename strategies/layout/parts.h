// The parts into which the pipeline cuts the micro-batches of a step.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "strategies/layout/rank_model.h"
#include "workloads/api/workload.h"

namespace dpbench::layout {

// A part of one of the step's micro-batches. The pipeline schedule calls such a part a micro-batch.
struct Part {
  Batch batch;
  double share = 1;  // factor of this part's loss in the loss of the whole micro-batch
  ModelSplit split = {};
};

// Cuts each micro-batch into parts, on the replica's device. Collective. exchange: returns the objects through which
// this rank exchanges activations of a part.
std::vector<Part> parts_of(std::span<const Batch> micro, const RankModel& model, const Workload& workload,
                           const std::function<ModelSplit(const Batch&)>& exchange);

}  // namespace dpbench::layout
