// Checks that a model can be divided as the mesh and the options ask. If not, each of these functions throws
// UsageError, or UnsuitableModel if the model lacks what is to be divided (such as experts).
#pragma once

#include <string>
#include <vector>

#include "strategies/layout/axes.h"
#include "strategies/layout/options.h"
#include "strategies/pipeline/stages.h"
#include "workloads/api/workload.h"

namespace dpbench::layout {

// Return how the model's tensors are cut over the ranks of tp, or of ep. The plan has no cuts if the axis has one rank.
TensorPlan checked_tensor_plan(const Model& model, const Axis& tp, const tensor::Options& options);
TensorPlan checked_expert_plan(const Model& model, const Axis& ep, const std::string& owner);

// Returns the mesh's axes. Throws UsageError if the mesh has two axes that the strategy cannot combine.
Axes checked_axes(const Mesh& mesh, const std::string& owner);

// Throws UsageError if the model has too few blocks for the ranks of pp. A rank without blocks would only pass
// activations on.
void refuse_idle_ranks(const Model& model, const std::vector<pipeline::Stage>& stages, const Axis& pp,
                       const std::string& owner);
void refuse_parts_of_batch_statistics(const std::vector<pipeline::Placed>& buffers, const Options& options);
void refuse_uncut_sequence(const Model& model, const Axes& axes, const Options& options);

// Calls all functions above. Also throws if the pipeline's stages or the axis `shard` do not suit the model. The mesh
// needs no process groups, so this function can be called before any rank starts.
void refuse_unsuitable(const Model& model, const Mesh& mesh, const Options& options);

}  // namespace dpbench::layout
