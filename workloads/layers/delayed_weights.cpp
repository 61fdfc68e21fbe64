#include "workloads/layers/delayed_weights.h"

#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>

#include "workloads/base/runtime.h"

namespace dpbench {
namespace {

using torch::autograd::Node;

thread_local std::shared_ptr<DelayedWeights> current_weights;

// Returns the autograd node that accumulates a parameter's gradient. weight: an edge of the autograd graph that leads
// to the node, under autocast through other nodes, which cast the weight.
const Node* parameter_of(const torch::autograd::Edge& weight) {
  const Node* node = weight.function.get();
  while (node->num_outputs() == 1) node = node->next_edge(0).function.get();
  return node;
}

// Adds several gradients to the gradient of one parameter. parameter: the autograd node that accumulates it. If the
// parameter has no gradient yet, the sum becomes its gradient without a copy.
void accumulate(Node& parameter, torch::autograd::variable_list gradients) {
  for (size_t i = 1; i < gradients.size(); ++i) gradients[0] = gradients[0] + gradients[i];
  gradients.resize(1);
  parameter(std::move(gradients));
}

}  // namespace

DelayedWeights::Scope::Scope(std::shared_ptr<DelayedWeights> to) : before_(std::move(current_weights)) {
  current_weights = std::move(to);
}

DelayedWeights::Scope::~Scope() { current_weights = std::move(before_); }

std::shared_ptr<DelayedWeights> DelayedWeights::current() { return current_weights; }

void DelayedWeights::add(torch::autograd::Edge weight, std::function<at::Tensor()> gradient) {
  products_.push_back({std::move(weight), std::move(gradient)});
}

void DelayedWeights::compute() {
  const at::NoGradGuard no_grad;
  const OwnWalk here;
  std::vector<Product> products = std::exchange(products_, {});
  for (size_t i = 0; i < products.size(); ++i) {
    if (!products[i].gradient) continue;
    const Node* parameter = parameter_of(products[i].weight);
    torch::autograd::edge_list weights;
    torch::autograd::variable_list gradients;
    for (size_t j = i; j < products.size(); ++j)
      if (products[j].gradient && parameter_of(products[j].weight) == parameter) {
        weights.push_back(products[j].weight);
        gradients.push_back(std::exchange(products[j].gradient, nullptr)());
      }
    if (weights[0].function.get() == parameter)
      accumulate(*weights[0].function, std::move(gradients));
    else
      torch::autograd::Engine::get_default_engine().execute(weights, gradients, /*keep_graph=*/false,
                                                            /*create_graph=*/false, /*accumulate_grad=*/true);
  }
}

}  // namespace dpbench
