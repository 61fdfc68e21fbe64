// Reductions over ranks. A gradient whose parts lie on several ranks is clipped by its whole norm, gradients are
// summed, and of the step counts of a sharded parameter the largest is taken. A null process group stands for a single
// rank.
#pragma once

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/api/mesh.h"
#include "strategies/api/parts/optimizer.h"

namespace dpbench {

// Scales this rank's parts of the gradients so that the norm of the whole gradient, in which each element counts once,
// is at most `limit`. groups: process groups over which the squared norm is summed. copies: gradients that are scaled
// but not counted, because another rank counts them. Collective.
void clip_parts(const std::vector<at::Tensor>& gradients, double limit, at::Device device,
                const std::vector<c10d::ProcessGroup*>& groups, const std::vector<at::Tensor>& copies = {});

// All-reduces the gradients over the ranks of an axis and divides the sums by `divisor`.
void sum_over(const Axis& axis, const std::vector<at::Tensor>& gradients, double divisor = 1);

// Returns the optimizer's step count of each of these parameters: the maximum over the ranks of `group`, because some
// ranks have no part of a parameter. state: this rank's optimizer state by name. Collective.
std::vector<at::Tensor> largest_step_counts(const std::vector<Parameter>& parameters, const NamedTensors& state,
                                            at::Device device, c10d::ProcessGroup* group);

}  // namespace dpbench
