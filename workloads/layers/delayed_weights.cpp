#include "workloads/layers/delayed_weights.h"

#include <utility>

#include <torch/csrc/autograd/engine.h>

namespace dpbench {
namespace {

using torch::autograd::Node;

thread_local std::shared_ptr<DelayedWeights> current_weights;

// Returns the node that stores the gradient of the parameter to which the edge leads. Under autocast, nodes that cast
// the weight lie between.
const Node* parameter_of(const torch::autograd::Edge& weight) {
  const Node* node = weight.function.get();
  while (node->num_outputs() == 1) node = node->next_edge(0).function.get();
  return node;
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
    torch::autograd::Engine::get_default_engine().execute(weights, gradients, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
  }
}

}  // namespace dpbench
