// Helpers for custom autograd nodes, which call the same kernels as torch's nodes. They give the same bits with fewer
// nodes and views.
#pragma once

#include <memory>
#include <utility>

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/version.h>

#include "workloads/base/runtime.h"

namespace dpbench {

template <class OwnNode, class... Arguments>
auto make_node(Arguments&&... arguments) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
  return std::shared_ptr<OwnNode>(new OwnNode(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
#else
  return c10::make_intrusive<OwnNode>(std::forward<Arguments>(arguments)...);
#endif
}

// Throws if a second derivative is requested (create_graph). Every custom node calls this function first in apply().
// Autograd does not track the operations in apply(), so a second derivative would be incomplete without an error.
inline void enter_own_node(const torch::autograd::Node& node) {
  TORCH_CHECK(!at::GradMode::is_enabled(), node.name(),
              " has no second derivative: backward() with create_graph needs torch's own layers");
}

// Returns true if a layer may use a custom autograd node: in the runtime `fast`, with gradients enabled, for a
// contiguous CPU tensor. Returns false under autocast, which only torch's own nodes handle, and on a GPU, where the
// time that nodes take rarely matters.
inline bool plain_on_cpu(const at::Tensor& input) {
  return runtime() == Runtime::fast && at::GradMode::is_enabled() && input.is_cpu() && input.is_contiguous() &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

inline bool takes_own_node(const at::Tensor& rows) {
  const auto type = rows.scalar_type();
  return plain_on_cpu(rows) && rows.dim() == 2 && (type == at::kFloat || type == at::kDouble);
}

}  // namespace dpbench
