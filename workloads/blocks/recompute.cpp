// Runs a model's blocks, and recomputes them: the backward pass runs blocks again instead of keeping their activations,
// which saves memory and costs about a third more computation.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "workloads/api/workload.h"
#include "workloads/base/error.h"
#include "workloads/layers/autocast.h"
#include "workloads/layers/onednn.h"
#include "workloads/layers/own_node.h"
#include "workloads/layers/recorded_step.h"

namespace dpbench {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Returns each trained parameter of the blocks once, in the order of the blocks.
std::vector<at::Tensor> trained_parameters_of(std::span<const Block> blocks) {
  std::vector<at::Tensor> all;
  for (const Block& block : blocks)
    for (const auto& layer : block.layers)
      for (const at::Tensor& parameter : layer->parameters())
        if (parameter.requires_grad() &&
            std::ranges::none_of(all, [&](const at::Tensor& other) { return other.is_same(parameter); }))
          all.push_back(parameter);
  return all;
}

// Runs the blocks one after the other: each gets the output of the one before.
at::Tensor run_blocks(std::span<const Block> blocks, at::Tensor x, const Context& context) {
  for (const Block& block : blocks) {
    context.split.begin_block(block.name);
    x = block.forward(std::move(x), context);
  }
  return x;
}

// Saves the values of the blocks' buffers in its constructor and restores them in its destructor.
class KeptBuffers {
 public:
  explicit KeptBuffers(std::span<const Block> blocks) {
    for (const Block& block : blocks)
      for (const auto& layer : block.layers)
        for (const at::Tensor& buffer : layer->buffers()) kept_.emplace_back(buffer, buffer.clone());
  }
  ~KeptBuffers() {
    const at::NoGradGuard no_grad;
    for (auto& [buffer, value] : kept_) buffer.copy_(value);
  }
  KeptBuffers(const KeptBuffers&) = delete;
  KeptBuffers& operator=(const KeptBuffers&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> kept_;
};

class RecomputeNode : public torch::autograd::Node {
 public:
  RecomputeNode(std::span<const Block> blocks, std::vector<at::Tensor> parameters, const at::Tensor& x,
                const Context& context)
      : blocks_(blocks.begin(), blocks.end()),
        parameters_(std::move(parameters)),
        context_(context),
        x_(x, /*is_output=*/false),
        device_(x.device().type()),
        autocast_(at::autocast::is_autocast_enabled(device_)),
        onednn_(OneDnnProducts::on()),
        step_(RecordedStep::number()) {}

  variable_list apply(variable_list&& slopes) override {
    TORCH_CHECK(!at::GradMode::is_enabled(), name(), " has no second derivative: use a model without recomputation");
    const at::Tensor before = x_.unpack();
    variable_list inputs = parameters_;
    const bool needs_x = before.requires_grad();
    const at::Tensor x = before.detach().requires_grad_(needs_x);
    if (needs_x) inputs.insert(inputs.begin(), x);
    // Saves the values of the blocks' buffers now and restores them at the end of this function. The second run updates
    // the buffers, and its backward pass uses the updated values.
    const KeptBuffers buffers(blocks_);
    variable_list gradients = torch::autograd::grad({again(x)}, inputs, {slopes[0]}, /*retain_graph=*/false,
                                                    /*create_graph=*/false, /*allow_unused=*/true);
    if (!needs_x) gradients.insert(gradients.begin(), at::Tensor());
    return gradients;
  }
  void release_variables() override { x_.reset_data(); }
  std::string name() const override { return "recompute"; }

 private:
  // Runs the blocks again, with the same step number, dropout masks and autocast as in the forward pass.
  at::Tensor again(const at::Tensor& x) const {
    const at::AutoGradMode with_graph(true);
    const Autocast autocast(autocast_, device_);
    const OneDnnProducts products(onednn_);
    const RecordedStep step(step_);
    return run_blocks(blocks_, x, context_);
  }

  std::vector<Block> blocks_;  // copies, because a strategy may delete the model before the backward pass
  std::vector<at::Tensor> parameters_;
  Context context_;
  SavedVariable x_;
  at::DeviceType device_;
  bool autocast_, onednn_;
  at::Tensor step_;
};

// Same as run_blocks(), with the same bits in output, gradients and buffers, but keeps only `x` for the backward pass.
// The backward pass runs the blocks again, with the autocast and dropout masks of the first run, but does not update
// buffers a second time. A parameter that the blocks do not use counts as used: autograd calls its hooks with an
// undefined gradient.
at::Tensor recomputed(std::span<const Block> blocks, const at::Tensor& x, const Context& context) {
  std::vector<at::Tensor> parameters = trained_parameters_of(blocks);
  if (!at::GradMode::is_enabled() || (parameters.empty() && !x.requires_grad())) return run_blocks(blocks, x, context);
  at::Tensor output;
  {
    const at::NoGradGuard no_grad;
    output = run_blocks(blocks, x.detach(), context).detach();
  }
  edge_list edges{torch::autograd::impl::gradient_edge(x)};
  for (const at::Tensor& parameter : parameters) edges.push_back(torch::autograd::impl::gradient_edge(parameter));
  const auto node = make_node<RecomputeNode>(blocks, std::move(parameters), x, context);
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(output, node);
  return output;
}

}  // namespace

at::Tensor Model::forward(const at::Tensor& input, const Context& context) {
  check(!blocks_.empty(), "a model without blocks must override forward()");
  return forward_span(0, blocks_.size(), input, context);
}

size_t Model::recomputed_blocks(size_t first, size_t last) const {
  const auto every = static_cast<size_t>(recompute_);
  return first + every < blocks_.size() ? std::min(every, last - first) : 0;
}

at::Tensor Model::forward_span(size_t first, size_t last, at::Tensor x, const Context& context) {
  const std::span<const Block> all = blocks_;
  while (const size_t count = recomputed_blocks(first, last)) {
    x = recomputed(all.subspan(first, count), x, context);
    first += count;
  }
  return first < last ? run_blocks(all.subspan(first, last - first), std::move(x), context) : x;
}

}  // namespace dpbench
