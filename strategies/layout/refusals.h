// Checks that a model can be divided as the mesh and the options ask. Each function throws UsageError if it cannot;
// UnsuitableModel if the model lacks the part to divide.
#pragma once

#include <string>
#include <vector>

#include "strategies/layout/axes.h"
#include "strategies/layout/options.h"
#include "strategies/pipeline/stages.h"
#include "workloads/api/workload.h"

namespace dpbench::layout {

// Return the model's cuts over the ranks of tp, and of ep; no cuts if the axis has one rank.
TensorPlan checked_tensor_plan(const Model& model, const Axis& tp, const tensor::Options& options);
TensorPlan checked_expert_plan(const Model& model, const Axis& ep, const std::string& owner);

// Returns the axes of the mesh. Throws UsageError if the strategy cannot combine two of them.
Axes checked_axes(const Mesh& mesh, const std::string& owner);

// Refuses a model with too few blocks for the ranks of pp: one of them would only pass on what it receives.
void refuse_idle_ranks(const Model& model, const std::vector<pipeline::Stage>& stages, const Axis& pp,
                       const std::string& owner);
void refuse_parts_of_batch_statistics(const std::vector<pipeline::Placed>& buffers, const Options& options);
void refuse_uncut_sequence(const Model& model, const Axes& axes, const Options& options);

}  // namespace dpbench::layout
