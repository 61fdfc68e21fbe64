// Reductions over the ranks that store parts of the same parameters: the norm of whole gradients and their clipping,
// sums of gradients, and the maximum of the optimizer's step counts. A null process group stands for a single rank.
#pragma once

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "strategies/api/mesh.h"
#include "strategies/api/parts/optimizer.h"

namespace dpbench {

// Clips gradients of which this rank has only parts: scales the parts so that the norm of the whole gradient is at most
// `limit`. groups: process groups over which the squared norm is summed. copies: gradients that are scaled too, but not
// counted in the norm, because another rank counts them. Collective.
void clip_parts(const std::vector<at::Tensor>& gradients, double limit, at::Device device,
                const std::vector<c10d::ProcessGroup*>& groups, const std::vector<at::Tensor>& copies = {});

// All-reduces the gradients over the ranks of an axis and divides the sums by `divisor`.
void sum_over(const Axis& axis, const std::vector<at::Tensor>& gradients, double divisor = 1);

// Returns the optimizer's step count of each of these parameters. A rank that stores no part of a parameter has no
// count, so the maximum over the ranks of `group` is taken. state: this rank's optimizer state by name. Collective.
std::vector<at::Tensor> largest_step_counts(const std::vector<Parameter>& parameters, const NamedTensors& state,
                                            at::Device device, c10d::ProcessGroup* group);

}  // namespace dpbench
